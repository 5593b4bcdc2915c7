"""A shop that is closed on Sundays, from raw files to the decision about a retraining; no step minds."""

import json
from argparse import Namespace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from components.drift import __main__ as drift
from components.evaluation import __main__ as evaluation
from components.features import __main__ as features
from components.ingestion import __main__ as ingestion
from components.monitoring import __main__ as monitoring
from components.scoring import __main__ as scoring
from components.training import __main__ as training
from nightshift import storage
from nightshift.config import parse
from nightshift.contracts import drift as contract
from nightshift.contracts import tables
from nightshift.data.splits import plan
from nightshift.runtime.context import StepContext
from nightshift.runtime.errors import UserError
from nightshift.tasks.tabular import simulator
from tests.components.states import state

pytestmark = pytest.mark.slow

SUNDAY, MONDAY = date(2025, 7, 6), date(2025, 7, 7)
CONFIG: dict[str, Any] = {
    "name": "shop",
    "label_delay_days": 1,
    "source": {"files": "{date}.parquet", "empty_days": ["sunday"]},
    "columns": simulator.ROLES,
    "simulator": {"customers": 300, "terminals": 60},
    "protocol": {"train_days": 4, "test_days": 4},
    "features": [{"preset": "payments", "windows": ["1d", "2d"]}],
    "task": {"kind": "tabular", "candidates": {"line": {"kind": "logistic_regression"}}},
    "evaluation": {"min_positives": 1, "min_average_precision": 0.0, "top_k": 5},
    "drift": {"window_days": 3},
}


class Pipeline:
    """The steps of a logical date, in this process."""

    def __init__(self, root: Path, config: dict[str, Any], data: Path) -> None:
        self.root, self.config, self.data = root, config, data

    def path(self, name: str) -> str:
        return str(self.root / name)

    def run(self, step: Any, day: date, **flags: str) -> dict[str, Any]:
        common = {"config": json.dumps(self.config), "date": str(day), "device": "cpu"}
        return step.body(StepContext(Namespace(**common, state=state(self.root), data=str(self.data), **flags))) or {}

    def ingest(self, day: date) -> tables.Table:
        self.run(ingestion, day, events=self.path("events"))
        return tables.read_table(self.path("events"))

    def prepare(self, day: date) -> None:
        self.ingest(day)
        self.run(features, day, events=self.path("events"), features=self.path("features"))

    def watch(self, day: date) -> contract.DriftReport:
        flags = {"features": self.path("features"), "scores": self.path("scores"), "drift": self.path("drift")}
        self.run(scoring, day, model=self.path("model"), features=flags["features"], scores=flags["scores"])
        self.run(drift, day, **flags)
        self.run(monitoring, day, drift=flags["drift"], request=self.path("request"))
        return contract.DriftReport.read(self.path(f"drift/{contract.FILE}"))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Files by day and one table of the same days, from Monday to Saturday."""
    folder, needed = tmp_path_factory.mktemp("shop"), plan(parse(CONFIG), SUNDAY).events
    days = [needed.first + timedelta(days=number) for number in range((MONDAY - needed.first).days + 1)]
    simulator.write_days(str(folder), parse(CONFIG).simulator, [day for day in days if day.weekday() != 6])
    frames = [pd.read_parquet(file) for file in sorted(folder.glob("*.parquet"))]
    pd.concat(frames).to_csv(folder / "all.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def shop(tmp_path_factory, data):
    """The steps, and a model that was trained on a Sunday."""
    shop = Pipeline(tmp_path_factory.mktemp("run"), CONFIG, data)
    shop.prepare(SUNDAY)
    shop.run(training, SUNDAY, features=shop.path("features"), model=shop.path("model"))
    return shop


def test_a_day_without_rows_is_a_day_of_each_table_in_both_layouts(shop, data, tmp_path):
    days = plan(parse(CONFIG), SUNDAY).events
    events = tables.read_table(shop.path("events"))
    closed = [date.fromisoformat(part.date) for part in events.partitions if not part.rows]
    assert closed == [day for day in days if day.weekday() == 6]
    assert (closed[-1], len(closed) >= 3) == (SUNDAY, True)
    assert tables.read_table(shop.path("features")).details["replay"]["day"] == "2025-07-05", "the last that has rows"
    table = CONFIG | {"source": {"table": "all.csv", "empty_days": "allowed"}}
    assert Pipeline(tmp_path, table, data).ingest(SUNDAY).read(days).equals(events.read(days))


def test_a_model_is_judged_on_test_days_without_rows_among_others(shop):
    flags = {name: shop.path(name) for name in ("features", "model", "evaluation")}
    shop.run(evaluation, SUNDAY, **flags)
    assert storage.read_json(shop.path("evaluation/verdict.json"))["decision"] in ("pass", "fail")
    assert storage.read_json(shop.path("evaluation/skew.json"))["decision"] == "pass"


def test_days_without_rows_are_neither_drift_nor_late_labels(shop):
    newest = shop.watch(SUNDAY)
    signals = {signal.name: signal for signal in newest.signals}
    assert (newest.window.last, signals["volume"].value, signals["volume"].raised) == (SUNDAY, None, False)
    assert tables.read_table(shop.path("scores/scores.json")).partitions[-1].rows == 0
    shop.prepare(MONDAY)
    signals = {signal.name: signal for signal in shop.watch(MONDAY).signals}
    assert not signals["labels"].raised, "those of Sunday are due, and there are none"
    assert not signals["volume"].raised

    shop.prepare(SUNDAY)
    shop.config = CONFIG | {"drift": {"window_days": 1}}
    with pytest.raises(UserError, match=r"the features of 2025-07-06 .. 2025-07-06 have no rows"):
        shop.watch(SUNDAY)
