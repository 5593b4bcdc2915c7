"""A small world of demand, ingested, trained and evaluated in this process."""

from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.demand import DATE, ingest
from components.training import core
from nightshift.config import parse
from nightshift.config.regression import RegressionConfig
from nightshift.contracts import package
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.tables import Table
from nightshift.data import splits
from nightshift.tasks.base.evaluation import EvaluationReport
from nightshift.tasks.base.features import FeatureSetup
from nightshift.tasks.base.training import TrainingSetup
from nightshift.tasks.regression.evaluation import EvaluationTask, NumbersUnderTest
from nightshift.tasks.regression.features import PastLabels
from nightshift.tasks.regression.training import NumberRows
from pipelines import configs

SMALL: dict[str, Any] = {"protocol": {"train_days": 28, "test_days": 14}}
CANDIDATES: dict[str, Any] = {
    "xgboost": {
        "kind": "xgboost",
        "parameters": {"objective": "count:poisson", "n_estimators": 60, "max_depth": 4, "tree_method": "hist"},
    },
    "ridge": {"kind": "ridge"},
}


def config(candidates: dict[str, Any] = CANDIDATES, **sections: Any) -> RegressionConfig:
    """The shipped config with fewer days, and with some sections changed."""
    value = configs.load("demand") | SMALL | sections
    parsed = parse(value | {"task": value["task"] | {"candidates": candidates}})
    assert isinstance(parsed, RegressionConfig)
    return parsed


@dataclass(frozen=True)
class Demand:
    """A use case, and a folder for its tables and its model."""

    config: RegressionConfig
    folder: Path

    @cached_property
    def events(self) -> Table:
        return ingest(self.config, self.folder)

    @cached_property
    def features(self) -> Table:
        plan = splits.plan(self.config, DATE)
        past = PastLabels(FeatureSetup(self.config, str(self.folder / "lake"), self.events, "cpu", "", ""))
        parts = past.write({day: past.uri(day) for day in plan.features})
        details = past.details([*parts.values()]).details | {"events_sha256": self.events.sha256}
        return Table("features", [parts[day] for day in plan.features], details)

    @cached_property
    def setup(self) -> TrainingSetup[RegressionConfig]:
        return TrainingSetup(self.config, splits.plan(self.config, DATE), self.features, "cpu")

    @property
    def uri(self) -> str:
        return str(self.folder / "model")

    @cached_property
    def model(self) -> ModelPackage:
        trained = core.train(self.setup, NumberRows(self.setup), "1")
        return package.save(self.uri, trained.package, trained.graphs, trained.reference, trained.files)

    @cached_property
    def tested(self) -> NumbersUnderTest:
        return EvaluationTask().read_test_rows(
            self.config, self.features, splits.plan(self.config, DATE).test, self.model
        )

    @cached_property
    def report(self) -> EvaluationReport:
        measured = {name: self.tested.measure(self.uri, self.model, name) for name in self.model.candidates}
        return self.tested.report(self.uri, self.model, measured, "There was no champion to compare with.", None)

    def read(self, day: date) -> pd.DataFrame:
        return self.features.read([day])
