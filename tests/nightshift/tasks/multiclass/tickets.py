"""A small world of tickets, ingested, trained and evaluated in this process."""

from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.tickets import DATE, prepare
from components.training import core
from nightshift.config import parse
from nightshift.config.multiclass import MulticlassConfig
from nightshift.contracts import package, tables
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.tables import Table
from nightshift.tasks.base.evaluation import EvaluationReport
from nightshift.tasks.base.training import TrainingSetup
from nightshift.tasks.multiclass.evaluation import EvaluationTask, MulticlassUnderTest
from nightshift.tasks.multiclass.training import MulticlassRows
from pipelines import configs

SMALL: dict[str, Any] = {
    "protocol": {"train_days": 14, "test_days": 7},
    "simulator": {"items": 150, "customers": 200},
}
CANDIDATES: dict[str, Any] = {
    "xgboost": {"kind": "xgboost", "parameters": {"n_estimators": 40, "max_depth": 3, "tree_method": "hist"}},
    "logistic_regression": {"kind": "logistic_regression"},
}


def config(candidates: dict[str, Any] = CANDIDATES, **sections: Any) -> MulticlassConfig:
    """The shipped config with fewer days and tickets, and with some sections changed."""
    value = configs.load("tickets") | SMALL | sections
    # one thread: two wait for each other where cores are shared
    parsed = parse(value | {"task": value["task"] | {"candidates": candidates, "threads": 1}})
    assert isinstance(parsed, MulticlassConfig)
    return parsed


@dataclass(frozen=True)
class Tickets:
    """A use case, and a folder for its tables and its model."""

    config: MulticlassConfig
    folder: Path

    @cached_property
    def setup(self) -> TrainingSetup[MulticlassConfig]:
        return prepare(self.config, self.folder)

    @property
    def features(self) -> Table:
        return self.setup.features

    @property
    def uri(self) -> str:
        return str(self.folder / "model")

    @cached_property
    def model(self) -> ModelPackage:
        trained = core.train(self.setup, MulticlassRows(self.setup), "1")
        return package.save(self.uri, trained.package, trained.graphs, trained.reference, trained.files)

    @cached_property
    def tested(self) -> MulticlassUnderTest:
        return EvaluationTask().read_test_rows(self.config, self.features, self.setup.plan.test, self.model)

    @cached_property
    def report(self) -> EvaluationReport:
        measured = {name: self.tested.measure(self.uri, self.model, name) for name in self.model.candidates}
        return self.tested.report(self.uri, self.model, measured, "There was no champion to compare with.", None)

    def read(self, day: date) -> pd.DataFrame:
        return self.features.read([day])

    def change_labels(self, folder: Path, change: dict[str, str]) -> TrainingSetup[MulticlassConfig]:
        """Return the training with classes called otherwise on its last training days."""
        days = [*self.setup.plan.test.train]
        parts = []
        for part in self.features.partitions:
            day = date.fromisoformat(part.date)
            rows = self.read(day).replace({"label": change} if day in days else {})
            parts.append(tables.write_partition(str(folder / f"{part.date}.parquet"), day, rows, {}))
        features = Table("features", parts, self.features.details)
        return TrainingSetup(self.config, self.setup.plan, features, "cpu")


__all__ = ["CANDIDATES", "DATE", "SMALL", "Tickets", "config"]
