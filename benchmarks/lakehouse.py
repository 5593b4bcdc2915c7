"""Ingestion of 10 million rows over 30 days from Delta Lake and Iceberg, and of a million messages from Kafka.

Parquet files by day, which hold the same rows, are the measure. Each runs in a process of its own.
"""

import argparse
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import duckdb
import pyarrow as pa
from deltalake import write_deltalake
from pyarrow import parquet
from pyiceberg.catalog import load_catalog

from benchmarks import figures
from benchmarks.databases import DAYS, EVENTS, ROWS, ingest, measure
from nightshift_testkit import kafka

MESSAGES = 1_000_000
TOPIC = "events"


def run(rows: int, messages: int) -> None:
    """Measure and publish rows a second and peak memory of each way."""
    with tempfile.TemporaryDirectory() as name, kafka.serve() as broker:
        folder = Path(name)
        catalog = {"uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}/iceberg"}
        os.environ |= {f"PYICEBERG_CATALOG__BENCH__{key.upper()}": value for key, value in catalog.items()}
        _write_tables(folder, catalog, rows)
        _send(broker, messages)
        lake = folder / "lake"
        ways = {
            "Parquet files by day": (rows, partial(ingest, name, lake / "files", {"files": "{date}.parquet"})),
            "Delta Lake": (rows, partial(ingest, name, lake / "delta", {"delta": "delta"})),
            "Iceberg": (rows, partial(ingest, "iceberg://bench", lake / "iceberg", {"iceberg": "bench.events"})),
            "Kafka": (messages, partial(ingest, broker.uri, lake / "kafka", {"topic": TOPIC})),
        }
        measured = {name: (count, *measure(way)) for name, (count, way) in ways.items()}
    table = [
        {"source": name, "rows": count, "rows a second": round(count / seconds), "peak MB": round(peak / 1e6)}
        for name, (count, seconds, peak) in measured.items()
    ]
    figures.publish("lakehouse", table, f"5 columns over {DAYS} days; Kafka's messages are landed first.")


def _write_tables(folder: Path, properties: dict[str, str], rows: int) -> None:
    """Write the same events, a commit a day, as files, a Delta Lake table and an Iceberg table."""
    catalog = load_catalog("bench", **properties)
    catalog.create_namespace("bench")
    for day, events in _days(rows):
        parquet.write_table(events, folder / f"{day}.parquet")
        write_deltalake(folder / "delta", events, mode="append")
        catalog.create_table_if_not_exists("bench.events", events.schema).append(events)


def _send(broker: kafka.Broker, messages: int) -> None:
    broker.create(TOPIC, 1)
    for _, events in _days(messages):
        broker.send(TOPIC, (json.dumps(row, default=str).encode() for row in events.to_pylist()))


def _days(rows: int) -> Iterator[tuple[str, pa.Table]]:
    with closing(duckdb.connect()) as database:
        database.execute(EVENTS.format(rows=rows, step=DAYS * 86_400_000_000 // rows))
        for (day,) in database.sql("select distinct time::date::text from events order by 1").fetchall():
            yield (
                day,
                database.sql("select * from events where time::date = $day", params={"day": day}).to_arrow_table(),
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lakehouse", description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--messages", type=int, default=MESSAGES)
    args = parser.parse_args()
    run(args.rows, args.messages)
