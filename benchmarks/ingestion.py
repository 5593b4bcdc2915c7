"""Ingestion of one CSV table with days by the thousand: each day on its own, and days that are alike at once."""

import argparse
import tempfile
import time
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from benchmarks import figures
from components.ingestion import __main__ as step
from components.ingestion import sources
from nightshift import config, storage
from nightshift.data import splits

DAYS, ROWS_A_DAY = 2_900, 100
LAST = date(2024, 12, 31)
TABLE = "all.csv"
CONFIG = {
    "name": "long",
    "label_delay_days": 0,
    "source": {"table": TABLE},
    "columns": {
        "event_id": "id",
        "event_time": "time",
        "customer": "customer",
        "amount": "amount",
        "label": "label",
        "numeric": ["rating"],
        "categorical": ["channel"],
    },
    "task": {"kind": "tabular", "candidates": {"line": {"kind": "logistic_regression"}}},
}


class OneByOne(sources.OneTable):
    """The table, each of its days read on its own."""

    has_fixed_dtypes: ClassVar = False


def run(days: int = DAYS) -> dict[str, Any]:
    """Measure, print and return {days, rows, one by one, at once}: milliseconds a day, wall and CPU.

    The partitions of both are the same to the byte.
    """
    report: dict[str, Any] = {"days": days, "rows": days * ROWS_A_DAY}
    with tempfile.TemporaryDirectory() as folder:
        _write(Path(folder), days)
        hashes = set()
        for name, source in (("one by one", OneByOne), ("at once", sources.OneTable)):
            report[name], partitions = _measure(Path(folder), days, source)
            hashes.add(partitions)
    assert len(hashes) == 1, "the same partitions"
    rows = [{"days are read": name, **report[name]} for name in ("one by one", "at once")]
    figures.publish("ingestion", rows, f"{days:,} days of {ROWS_A_DAY} rows; the partitions are the same to the byte.")
    return report


def _measure(folder: Path, days: int, source: type[sources.OneTable]) -> tuple[dict[str, float], str]:
    settings = config.parse(CONFIG)
    plan = replace(splits.plan(settings, LAST), events=splits.Days(LAST - timedelta(days=days - 1), LAST))
    setup = step.IngestionSetup(settings, plan, source(str(folder), settings), str(folder / source.__name__))
    wall, cpu = time.perf_counter(), time.process_time()
    partitions = step.ingest(setup)
    took = {"ms a day": 1000 * (time.perf_counter() - wall), "CPU ms a day": 1000 * (time.process_time() - cpu)}
    hashes = [[part.date, part.sha256] for part in partitions]
    return {name: round(ms / days, 2) for name, ms in took.items()}, storage.fingerprint(hashes)


def _write(folder: Path, days: int) -> None:
    rng, rows = np.random.default_rng(0), days * ROWS_A_DAY
    seconds = np.sort(rng.integers(0, 86_400 * days, rows)).astype("timedelta64[s]")
    columns = {
        "id": np.arange(rows),
        "time": np.datetime64(LAST + timedelta(days=1), "s") - seconds[-1] - np.timedelta64(1, "s") + seconds,
        "customer": rng.integers(0, 500, rows),
        "amount": rng.gamma(2, 50, rows).round(2),
        "rating": rng.normal(size=rows).round(4),
        "channel": rng.choice(["shop", "web", "app"], rows),
        "label": rng.integers(0, 2, rows),
    }
    pd.DataFrame(columns).to_csv(folder / TABLE, index=False, date_format="%Y-%m-%dT%H:%M:%S")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ingestion", description=__doc__)
    parser.add_argument("--days", type=int, default=DAYS)
    run(parser.parse_args().days)
