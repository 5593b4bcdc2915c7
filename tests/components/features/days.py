"""Nine days of events, the last six of which get features."""

import json
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pandas as pd

from nightshift.config import parse
from nightshift.contracts import tables
from nightshift.data.splits import Days, plan
from nightshift.tasks.tabular.features.job import TableFeatureJob
from tests.components.states import state

CONFIG = {
    "name": "tiny",
    "label_delay_days": 1,
    "source": {"table": "t.csv"},
    "columns": {role: role for role in ("event_id", "event_time", "customer", "terminal", "amount", "label")}
    | {"categorical": ["channel"]},
    "protocol": {"train_days": 1, "test_days": 1},
    "drift": {"window_days": 2},
    "features": [{"preset": "payments", "windows": ["1d", "2d"]}],
    "task": {"kind": "tabular", "candidates": {"a": {"kind": "xgboost"}}},
}
DATE = date(2024, 3, 10)
EVENTS = plan(parse(CONFIG), DATE).events
FEATURES = plan(parse(CONFIG), DATE).features


def sample(day: date, seed: int = 0) -> pd.DataFrame:
    """Fifty canonical events of a day; labels of the last day are not due."""
    rng = np.random.default_rng([seed, day.toordinal()])
    seconds = np.sort(rng.integers(0, 86_400, 50))
    return pd.DataFrame(
        {
            "event_id": day.toordinal() * 100 + np.arange(50),
            "event_time": (pd.Timestamp(day) + pd.to_timedelta(seconds, unit="s")).astype("datetime64[us]"),
            "customer": rng.choice(["ann", "bob", "eve"], 50),
            "terminal": rng.integers(0, 3, 50),
            "amount": rng.integers(1, 10_000, 50) / 100,
            "label": pd.array(rng.integers(0, 2, 50) if day < DATE else [None] * 50, dtype="Int8"),
            "channel": rng.choice(["web", "shop"], 50),
        }
    )


def write_events(folder: Path, changed: Days | None = None) -> str:
    """Write the events of every day; `changed` days hold other rows."""
    parts = []
    for day in Days(EVENTS.first, EVENTS.last + timedelta(days=1)):
        seed = 1 if changed and day in changed else 0
        uri = str(folder / "lake" / "events" / f"{day}-{seed}.parquet")
        parts.append(tables.write_partition(uri, day, sample(day, seed), {}))
    tables.write_table(str(folder / "events.json"), tables.Table("events", parts))
    return str(folder / "events.json")


def flags(folder: Path, day: date = DATE, device: str = "cpu", config: dict | None = None) -> list[str]:
    """The command line of the step."""
    values = {
        "config": json.dumps(config or CONFIG),
        "date": str(day),
        "device": device,
        "state": state(folder),
        "events": str(folder / "events.json"),
        "features": str(folder / "features.json"),
    }
    return [part for name, value in values.items() for part in (f"--{name}", value)]


def job(folder: Path, lake: str, config: dict | None = None) -> TableFeatureJob:
    """What the step makes of the flags, with a lake of one's own below the folder."""
    events = tables.read_table(str(folder / "events.json"))
    return TableFeatureJob(parse(config or CONFIG), str(folder / lake), events, "cpu")
