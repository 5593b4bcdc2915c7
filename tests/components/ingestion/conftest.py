import json
import subprocess
import sys
from argparse import Namespace
from copy import deepcopy
from datetime import date
from pathlib import Path

import pandas as pd
import pytest

from components.ingestion.__main__ import body
from nightshift.config import parse
from nightshift.contracts import tables
from nightshift.data import splits
from nightshift.runtime.context import StepContext
from nightshift.tasks.tabular import simulator
from tests.components.states import state

DATE = "2024-03-10"
# windows of a day each: the logical date looks back six days, and all labels are known
CONFIG = {
    "name": "small",
    "label_delay_days": 1,
    "source": {"files": "{date}.parquet"},
    "columns": simulator.ROLES,
    "simulator": {"customers": 60, "terminals": 120},
    "protocol": {"mode": "retrospective", "train_days": 1, "test_days": 1},
    "drift": {"window_days": 2},
    "features": [{"preset": "payments", "windows": ["1d"]}],
    "task": {"kind": "tabular", "candidates": {"first": {"kind": "logistic_regression"}}},
}


class Step:
    """The real step with a lake of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.lake = root / "lake"
        self.events = str(root / "events.json")

    def flags(self, config: dict, data: object, day: str = DATE) -> dict[str, str]:
        return {
            "config": json.dumps(config),
            "date": day,
            "data": str(data),
            "state": state(self.root, lake=str(self.lake)),
            "events": self.events,
        }

    def ingest(self, config: dict, data: object, day: str = DATE) -> tables.Table:
        """Run in this process and return the manifest."""
        body(StepContext(Namespace(**self.flags(config, data, day))))
        return tables.read_table(self.events)

    def command(self, config: dict, data: object, day: str = DATE) -> list[str]:
        flags = [word for name, value in self.flags(config, data, day).items() for word in (f"--{name}", value)]
        return [sys.executable, "-m", "components.ingestion", *flags]

    def run(self, config: dict, data: object, day: str = DATE, **env: str) -> subprocess.CompletedProcess:
        """Run as its own process."""
        command = self.command(config, data, day)
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300, env=env or None)


@pytest.fixture
def step(tmp_path):
    return Step(tmp_path)


@pytest.fixture
def config():
    return deepcopy(CONFIG)


@pytest.fixture
def days():
    """The days that the logical date needs."""
    return list(splits.plan(parse(CONFIG), date.fromisoformat(DATE)).events)


@pytest.fixture(scope="session")
def clean_days(tmp_path_factory):
    """A folder of daily Parquet files; copy it before you spoil it."""
    folder = tmp_path_factory.mktemp("clean")
    parsed = parse(CONFIG)
    simulator.write_days(str(folder), parsed.simulator, splits.plan(parsed, date.fromisoformat(DATE)).events)
    return folder


@pytest.fixture(scope="session")
def clean_events(clean_days, tmp_path_factory):
    """The manifest of these days."""
    return Step(tmp_path_factory.mktemp("ingested")).ingest(CONFIG, clean_days)


@pytest.fixture
def folder(clean_days, tmp_path):
    """A folder of daily Parquet files of one's own."""
    own = tmp_path / "raw"
    own.mkdir()
    for file in clean_days.iterdir():
        (own / file.name).write_bytes(file.read_bytes())
    return own


@pytest.fixture
def spoil(folder):
    """Rewrite a day's file: `spoil(day, change)` with a function from frame to frame; returns the file."""

    def rewrite(day: object, change) -> Path:
        file = folder / f"{day}.parquet"
        change(pd.read_parquet(file)).to_parquet(file)
        return file

    return rewrite
