"""Feature engineering over all 1,754,155 published transactions: the kernel against the usual ways to do it.

Every implementation starts from the same frame (in order of time), gives the same twelve window columns in the
order of the rows, and runs in processes of its own, so that CPU time and peak memory are its own. The results
are compared: Polars counts later rows of the same second too, so a customer's rows of one second may differ.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from benchmarks import figures, published
from nightshift import config
from nightshift.runtime.memory import peak_memory
from nightshift.tabular import frames
from nightshift.tasks.tabular.features import core

ROOT = Path(__file__).parents[1]
RAW = ROOT.parent / "shared" / "data" / "handbook" / "raw"
ROLES = {
    "TRANSACTION_ID": "event_id",
    "TX_DATETIME": "event_time",
    "CUSTOMER_ID": "customer",
    "TERMINAL_ID": "terminal",
    "TX_AMOUNT": "amount",
    "TX_FRAUD": "label",
}
WINDOWS, DELAY = (1, 7, 30), 7
COLUMNS = [f"customer_{name}_{w}d" for w in WINDOWS for name in ("count", "mean_amount")]
COLUMNS += [f"terminal_{name}_{w}d" for w in WINDOWS for name in ("count", "positive_rate")]
ATTEMPTS, BRIEF = 5, 5.0  # what takes less than BRIEF CPU seconds is measured so many times, the least counts
EVENTS = "events.parquet"


def transactions() -> pd.DataFrame:
    """The published transactions as canonical events, from ../shared or else from the simulator."""
    if RAW.exists():
        raw = pd.concat([pd.read_parquet(file, columns=list(ROLES)) for file in sorted(RAW.glob("*.parquet"))])
    else:
        raw = published.transactions()[list(ROLES)]
    events = raw.rename(columns=ROLES).astype(
        {"event_time": "datetime64[us]", "customer": "int64", "terminal": "int64", "label": "int8"}
    )
    return events.sort_values(["event_time", "event_id"], ignore_index=True)


def nightshift(events: pd.DataFrame) -> Any:
    """Our kernel, as the features step calls it; it adds three more inputs and the identifiers."""
    handbook = config.parse(yaml.safe_load((ROOT / "pipelines" / "configs" / "handbook.yaml").read_text()))
    return core.features(events, handbook, frames.backend("cpu"))


def polars_rolling_by(events: Any) -> Any:
    """Polars expressions: `rolling_*_by(...).over(key)`; the delayed window is a difference of two."""
    import polars as pl

    ones, positives, amount = pl.lit(1).alias("ones"), pl.col("label").cast(pl.Int64), pl.col("amount")

    def total(values: Any, days: int) -> Any:
        return values.rolling_sum_by("event_time", f"{days}d").over("terminal")

    reaches = (DELAY, *(DELAY + w for w in WINDOWS))
    parts = [total(pl.col("ones"), d).alias(f"count_{d}") for d in reaches]
    parts += [total(positives, d).alias(f"frauds_{d}") for d in reaches]
    for w in WINDOWS:
        parts += [
            pl.col("ones").rolling_sum_by("event_time", f"{w}d").over("customer").alias(f"customer_count_{w}d"),
            amount.rolling_mean_by("event_time", f"{w}d").over("customer").alias(f"customer_mean_amount_{w}d"),
        ]
    delayed = []
    for w in WINDOWS:
        counts = pl.col(f"count_{DELAY + w}") - pl.col(f"count_{DELAY}")
        late_frauds = pl.col(f"frauds_{DELAY + w}") - pl.col(f"frauds_{DELAY}")
        risk = pl.when(counts > 0).then(late_frauds / counts).otherwise(0.0)
        delayed += [counts.alias(f"terminal_count_{w}d"), risk.alias(f"terminal_positive_rate_{w}d")]
    return events.lazy().with_columns(ones).with_columns(parts).with_columns(delayed).select(COLUMNS).collect()


def polars_rolling(events: Any) -> Any:
    """Polars `DataFrame.rolling(group_by=key)` per window, on frames sorted by key, put back in order of rows."""
    import polars as pl

    rows = events.lazy().with_row_index("row")
    parts = []
    for key, offset, name, value in (
        ("customer", 0, "mean_amount", pl.col("amount").mean()),
        ("terminal", DELAY, "risk", pl.col("label").mean()),
    ):
        ordered = rows.sort(key, "row")
        for w in WINDOWS:
            windows = ordered.rolling("event_time", period=f"{w}d", offset=f"-{w + offset}d", group_by=key)
            columns = windows.agg(pl.len().alias(f"{key}_count_{w}d"), value.alias(f"{key}_{name}_{w}d"))
            parts.append(columns.drop(key, "event_time"))
        parts.append(ordered.select(pl.col("row").alias(f"{key}_row")))
    frames = pl.collect_all(parts)
    customer = pl.concat(frames[:4], how="horizontal").sort("customer_row")
    terminal = pl.concat(frames[4:], how="horizontal").sort("terminal_row")
    return pl.concat([customer, terminal], how="horizontal").select(COLUMNS).fill_null(0)


def pandas_groupby_rolling(events: pd.DataFrame) -> pd.DataFrame:
    """pandas `groupby(key).rolling(window)`, whose rows come back sorted by key."""
    timed = events.set_index("event_time")
    amounts, labels = timed.groupby("customer")["amount"], timed.groupby("terminal")["label"]
    customer: dict[str, Any] = {}
    for w in WINDOWS:
        trailing = amounts.rolling(f"{w}D")
        customer[f"customer_count_{w}d"] = trailing.count().to_numpy()
        customer[f"customer_mean_amount_{w}d"] = trailing.mean().to_numpy()
    young = labels.rolling(f"{DELAY}D")
    young_counts, young_positives = young.count().to_numpy(), young.sum().to_numpy()
    terminal: dict[str, Any] = {}
    for w in WINDOWS:
        trailing = labels.rolling(f"{DELAY + w}D")
        counts = trailing.count().to_numpy() - young_counts
        positives = trailing.sum().to_numpy() - young_positives
        terminal[f"terminal_count_{w}d"] = counts
        terminal[f"terminal_positive_rate_{w}d"] = positives / np.maximum(counts, 1)
    parts = [_in_order(customer, events["customer"]), _in_order(terminal, events["terminal"])]
    return pd.concat(parts, axis=1)


def _in_order(columns: dict[str, Any], keys: Any) -> pd.DataFrame:
    return pd.DataFrame(columns, index=keys.sort_values(kind="stable").index).sort_index()


def pandas_apply(events: pd.DataFrame) -> pd.DataFrame:
    """pandas `groupby(key).apply(function)`: one Python call per customer and per terminal, as tutorials have it."""

    def customer(rows: pd.DataFrame) -> pd.DataFrame:
        rows = rows.set_index("event_time")
        for w in WINDOWS:
            trailing = rows["amount"].rolling(f"{w}D")
            rows[f"customer_count_{w}d"] = trailing.count()
            rows[f"customer_mean_amount_{w}d"] = trailing.mean()
        return rows.set_index("event_id")[COLUMNS[:6]]

    def terminal(rows: pd.DataFrame) -> pd.DataFrame:
        rows = rows.set_index("event_time")
        young = rows["label"].rolling(f"{DELAY}D")
        young_counts, young_positives = young.count(), young.sum()
        for w in WINDOWS:
            trailing = rows["label"].rolling(f"{DELAY + w}D")
            counts = trailing.count() - young_counts
            rows[f"terminal_count_{w}d"] = counts
            rows[f"terminal_positive_rate_{w}d"] = ((trailing.sum() - young_positives) / counts).fillna(0.0)
        return rows.set_index("event_id")[COLUMNS[6:]]

    groups = events.groupby("customer"), events.groupby("terminal")
    customers = groups[0][["event_id", "event_time", "amount"]].apply(customer).droplevel(0)
    terminals = groups[1][["event_id", "event_time", "label"]].apply(terminal).droplevel(0)
    return customers.join(terminals).loc[events["event_id"]]


IMPLEMENTATIONS: dict[str, Callable[[Any], Any]] = {
    "nightshift": nightshift,
    "polars rolling_by over": polars_rolling_by,
    "polars rolling": polars_rolling,
    "pandas groupby.rolling": pandas_groupby_rolling,
    "pandas groupby.apply": pandas_apply,
}


def measure(name: str, folder: Path) -> dict[str, Any]:
    """Run one implementation in this process and leave its twelve columns in the folder."""
    if name.startswith("polars"):
        import polars as pl

        events: Any = pl.read_parquet(folder / EVENTS)
    else:
        events = pd.read_parquet(folder / EVENTS)
    cpu, wall = time.process_time(), time.perf_counter()
    result_frame = IMPLEMENTATIONS[name](events)
    measured = {
        "name": name,
        "cpu_seconds": round(time.process_time() - cpu, 3),
        "wall_seconds": round(time.perf_counter() - wall, 3),
        "peak_memory_bytes": peak_memory(),
    }
    columns = result_frame.select(COLUMNS).to_pandas() if name.startswith("polars") else result_frame[COLUMNS]
    columns.astype("float64").to_parquet(folder / f"{name}.parquet", index=False)
    return measured


def run() -> list[dict[str, Any]]:
    """Measure every implementation.

    Returns:
        per implementation {name, cpu_seconds, wall_seconds, peak_memory_bytes, rows_apart, ratio}: the whole process's
        peak with the input loaded, how many rows differ from Nightshift's, the ratio of CPU time to Nightshift's.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        transactions().to_parquet(folder / EVENTS, index=False)
        rows = _measure_all(folder)
        for row in rows:
            row["rows_apart"] = _rows_apart(row["name"], folder)
            row["ratio"] = round(row["cpu_seconds"] / rows[0]["cpu_seconds"], 1)
    _publish(rows)
    return rows


def _measure_all(folder: Path) -> list[dict[str, Any]]:
    attempts: dict[str, list[dict[str, Any]]] = {name: [] for name in IMPLEMENTATIONS}
    # in turns, so that a busy moment of the machine hits all of them
    for _ in range(ATTEMPTS):
        for name, done in attempts.items():
            if not done or done[0]["cpu_seconds"] < BRIEF:
                command = [sys.executable, "-m", "benchmarks.features", name, str(folder)]
                result = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT)
                done.append(json.loads(result.stdout))
    return [min(done, key=lambda row: row["cpu_seconds"]) for done in attempts.values()]


def _rows_apart(name: str, folder: Path) -> int:
    """Count rows that differ from Nightshift's, and make sure that only tied rows do."""
    events = pd.read_parquet(folder / EVENTS, columns=["event_time", "customer"])
    apart = np.zeros(len(events), dtype=bool)
    for column in COLUMNS:
        ours, theirs = (pd.read_parquet(folder / f"{n}.parquet", columns=[column]) for n in ("nightshift", name))
        # pandas and Polars add and subtract floats as a window moves
        apart |= ~np.isclose(ours[column], theirs[column], rtol=1e-6, atol=1e-6)
    assert events.duplicated(keep=False)[apart].all(), f"{name} differs in rows of no common second and customer"
    return int(apart.sum())


def _publish(rows: list[dict[str, Any]]) -> None:
    lines = [
        {
            "implementation": row["name"],
            "CPU s": row["cpu_seconds"],
            "wall s": row["wall_seconds"],
            "CPU ratio": row["ratio"],
            "peak MB": round(row["peak_memory_bytes"] / 1e6),
            "rows that differ": row["rows_apart"],
        }
        for row in rows
    ]
    figures.publish("features", lines)


if __name__ == "__main__":
    if sys.argv[1:]:
        print(json.dumps(measure(sys.argv[1], Path(sys.argv[2]))))
    else:
        run()
