"""Ingestion from a database: 10 million rows over 30 days from DuckDB and PostgreSQL, beside DuckDB's own copy.

Each runs in a process of its own. DuckDB's copy writes the same rows to Parquet files by day, and neither judges nor
sorts them.
"""

import argparse
import multiprocessing
import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import date, timedelta
from functools import partial
from pathlib import Path

import duckdb

from benchmarks import figures
from components.ingestion import __main__ as step
from components.ingestion import sources
from nightshift import config
from nightshift.data import splits
from nightshift.data.databases import open_database
from nightshift.runtime.memory import peak_memory
from nightshift_testkit import postgresql

DAYS, ROWS = 30, 10_000_000
FIRST = date(2024, 3, 1)
CONFIG = {
    "name": "many",
    "label_delay_days": 0,
    "source": {
        "query": "select * from events where time >= {date} and time < {next_date}",
        "version": "select count(*) from events where time >= {date} and time < {next_date}",
    },
    "columns": {"event_id": "id", "event_time": "time", "customer": "customer", "amount": "amount", "label": "label"},
    "task": {"kind": "tabular", "candidates": {"line": {"kind": "logistic_regression"}}},
}
EVENTS = """
create table events as select i as id, timestamp '2024-03-01' + to_microseconds(i * {step}) as time,
    (hash(i) % 50000)::bigint as customer, round((hash(i + 1) % 100000) / 100, 2)::double as amount,
    hash(i + 2) % 50 = 0 as label
from range({rows}) as numbers(i)
"""


def run(rows: int) -> None:
    """Measure and publish rows a second and peak memory of each way."""
    with tempfile.TemporaryDirectory() as name, postgresql.serve("many") as address:
        folder, uri = Path(name), f"postgresql://{address}/many"
        file = folder / "many.duckdb"
        _fill(file, uri, rows)
        ways: dict[str, Callable[[], None]] = {
            "DuckDB's copy": partial(_copy, file, folder / "copy"),
            "ingestion from DuckDB": partial(ingest, f"duckdb://{file}", folder / "lake"),
            "ingestion from PostgreSQL": partial(ingest, uri, folder / "lake"),
            "the same, all days in the lake": partial(ingest, uri, folder / "lake"),
        }
        measured = {}
        for name, way in ways.items():
            if name.startswith("ingestion"):
                shutil.rmtree(folder / "lake", ignore_errors=True)
            measured[name] = measure(way)
    table = [
        {"way": name, "rows a second": round(rows / seconds), "peak MB": round(peak / 1e6)}
        for name, (seconds, peak) in measured.items()
    ]
    figures.publish("databases", table, f"{rows:,} rows of 5 columns over {DAYS} days.")


def _fill(file: Path, uri: str, rows: int) -> None:
    """Write the same events to DuckDB and PostgreSQL, with an index on their times."""
    with closing(duckdb.connect(str(file))) as source, open_database(uri) as target:
        source.execute(EVENTS.format(rows=rows, step=DAYS * 86_400_000_000 // rows))
        with target.connection.cursor() as cursor:
            cursor.adbc_ingest("events", source.sql("select * from events").to_arrow_reader(100_000))
            cursor.execute("create index on events (time)")
        target.connection.commit()


def _copy(file: Path, folder: Path) -> None:
    with closing(duckdb.connect(str(file), read_only=True)) as database:
        database.execute(
            f"copy (select *, time::date as date from events) to '{folder}' (format parquet, partition_by (date))"
        )


def ingest(uri: str, lake: Path, source: dict[str, str] = CONFIG["source"]) -> None:
    """Ingest all days of a source."""
    settings = config.parse(CONFIG | {"source": source})
    last = FIRST + timedelta(days=DAYS - 1)
    plan = replace(splits.plan(settings, last), events=splits.Days(FIRST, last))
    source_of_days = sources.connect(uri, settings, last, landing=f"{lake}/landing")
    step.ingest(step.IngestionSetup(settings, plan, source_of_days, str(lake)))


def measure(way: Callable[[], None]) -> tuple[float, int]:
    """Return the seconds and the peak memory in bytes of a new process that has loaded the libraries."""
    processes = multiprocessing.get_context("spawn")
    receiver, sender = processes.Pipe(duplex=False)
    process = processes.Process(target=_report, args=(way, sender))
    process.start()
    seconds, peak = receiver.recv()
    process.join()
    return seconds, peak


def _report(way: Callable[[], None], sender: "multiprocessing.connection.Connection") -> None:
    from components.ingestion import core  # noqa: F401 what ingestion loads late

    started = time.perf_counter()
    way()
    sender.send((time.perf_counter() - started, peak_memory()))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.databases", description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    run(parser.parse_args().rows)
