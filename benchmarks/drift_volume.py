"""Scoring and the drift check of days with ten million rows: time and peak memory of each step, a process of its own.

A simulated day is repeated, with amounts that differ a little, until it has that many rows. The steps read two such
days, the newest one and the one whose labels are due, scored by an XGBoost trained on the same world.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from benchmarks import figures
from nightshift.runtime.memory import peak_memory
from pipelines.environments import local

ROWS = 10_000_000
ROW_GROUP = 1 << 20  # what pandas writes
FLAGS = {"scoring": ("model", "state", "scores"), "drift": ("scores", "drift")}


def run(rows: int = ROWS) -> dict[str, Any]:
    """Measure, print and return {rows, scoring, drift}, the steps with {seconds, peak_memory_bytes}."""
    with tempfile.TemporaryDirectory() as folder:
        # in a process of its own: a process starts with the peak memory of the one that starts it
        subprocess.run([sys.executable, "-m", "benchmarks.drift_volume", folder, str(rows)], check=True)
        costs = {step: measure(Path(folder), step, flags) for step, flags in FLAGS.items()}
    lines = [
        {"step": step, "seconds": cost["seconds"], "peak MB": round(cost["peak_memory_bytes"] / 1e6)}
        for step, cost in costs.items()
    ]
    figures.publish("drift-volume", lines, f"Two days of {rows:,} rows.")
    return {"rows": rows} | costs


def prepare(folder: Path, rows: int) -> None:
    """Write the model, the days, their manifest and the flags that every step takes."""
    from benchmarks.drift import WatchedWorld
    from nightshift import config as configuration
    from nightshift.contracts import package, tables
    from pipelines import configs

    shipped = configs.load("fraud")
    shipped["task"]["candidates"] = {"xgboost": shipped["task"]["candidates"]["xgboost"]}
    shipped["drift"] = {"window_days": 1}
    watch = WatchedWorld(configuration.parse(shipped), days=1)
    model, newest = watch.model, watch.trained
    package.save(str(folder / "model"), model.package, model.graphs, model.reference)
    due = newest - timedelta(days=watch.config.label_delay_days)
    parts = [_day(watch.rows, day, folder / f"{day}.parquet", rows) for day in (due, newest)]
    tables.write_table(str(folder / "features"), tables.Table("features", parts))
    flags = {"config": json.dumps(shipped), "date": str(newest), "features": str(folder / "features")}
    (folder / "flags.json").write_text(json.dumps(flags))


def measure(folder: Path, step: str, names: Iterable[str]) -> dict[str, Any]:
    """Run a step on what is prepared."""
    known = {
        "state": json.dumps(local(folder).dump()),
        "model": str(folder / "model"),
        "scores": str(folder / "scores"),
    }
    flags = json.loads((folder / "flags.json").read_text()) | {name: known[name] for name in names}
    argv = [word for name, value in flags.items() for word in (f"--{name}", value)]
    started = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", f"components.{step}", *argv])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return {"seconds": round(time.perf_counter() - started, 1), "peak_memory_bytes": peak_memory(usage)}


def _day(features: Any, day: date, path: Path, rows: int) -> Any:
    """Write a day with so many rows, a row group at a time."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from nightshift.contracts import tables
    from nightshift.data import splits

    frame = splits.rows_of(features, splits.Days(day, day))
    rng = np.random.default_rng(day.toordinal())
    schema = pa.Schema.from_pandas(frame, preserve_index=False)
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for start in range(0, rows, ROW_GROUP):
            group = frame.iloc[np.arange(start, min(start + ROW_GROUP, rows)) % len(frame)]
            group = group.assign(amount=group["amount"] * rng.uniform(0.99, 1.01, len(group)))
            writer.write_table(pa.Table.from_pandas(group, schema, preserve_index=False))
    return tables.Partition(str(day), str(path), rows, "")


if __name__ == "__main__":
    if sys.argv[1:]:
        prepare(Path(sys.argv[1]), int(sys.argv[2]))
    else:
        run()
