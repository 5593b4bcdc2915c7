"""Errors and coverage of numbers beside scikit-learn's HistGradientBoosting, on the same inputs and test days.

`python -m benchmarks.demand`: two simulated worlds through features, training and evaluation in this process.
"""

import tempfile
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from components.training import core
from nightshift.config import parse
from nightshift.config.regression import RegressionConfig
from nightshift.contracts import package, tables
from nightshift.contracts.evaluation import NumberEvaluation
from nightshift.contracts.tables import Table
from nightshift.data import splits
from nightshift.stats import conformal
from nightshift.tabular.inputs import matrix
from nightshift.tasks.base.features import FeatureSetup
from nightshift.tasks.base.training import TrainingSetup
from nightshift.tasks.regression.evaluation import EvaluationTask
from nightshift.tasks.regression.features import PastLabels
from nightshift.tasks.regression.simulator import SimulationTask
from nightshift.tasks.regression.training import NumberRows
from pipelines import configs

DATE = date(2025, 6, 30)
WORLDS: dict[str, dict[str, Any]] = {
    "20 shops, 10 products": {"seed": 0},
    "60 shops, 5 products, growth of 60 % a year": {"seed": 1, "shops": 60, "products": 5, "yearly_growth": 0.6},
}


def ingest(config: RegressionConfig, folder: Path) -> Table:
    """Return the simulated events of a run, under their canonical names."""
    names = {column.name: column.role for column in config.columns.read}
    parts = []
    for day in splits.plan(config, DATE).events:
        rows = SimulationTask().day(config.simulator, day).rename(columns=names)
        typed = rows.assign(
            label=rows["label"].astype("Float64"), event_time=rows["event_time"].astype("datetime64[us]")
        )
        parts.append(tables.write_partition(str(folder / f"events/{day}.parquet"), day, typed, {}))
    return Table("events", parts)


def prepare(config: RegressionConfig, folder: Path) -> TrainingSetup[RegressionConfig]:
    """Return a training on simulated features."""
    plan, events = splits.plan(config, DATE), ingest(config, folder)
    features = PastLabels(FeatureSetup(config, str(folder / "lake"), events, "cpu", "", ""))
    parts = features.write({day: features.uri(day) for day in plan.features})
    details = features.details([*parts.values()]).details | {"events_sha256": events.sha256}
    return TrainingSetup(config, plan, Table("features", [parts[day] for day in plan.features], details), "cpu")


def evaluate(setup: TrainingSetup[RegressionConfig], folder: Path) -> NumberEvaluation:
    """Train the shipped candidates and return `evaluation.json`."""
    trained, uri = core.train(setup, NumberRows(setup), "benchmark"), str(folder / "model")
    model = package.save(uri, trained.package, trained.graphs, trained.reference, trained.files)
    rows = EvaluationTask().read_test_rows(setup.config, setup.features, setup.plan.test, model)
    measured = {name: rows.measure(uri, model, name) for name in model.candidates}
    figures = rows.report(uri, model, measured, "There was no champion to compare with.", None).figures
    assert isinstance(figures, NumberEvaluation)
    return figures


def compare(setup: TrainingSetup[RegressionConfig]) -> dict[str, float]:
    """Return the errors of scikit-learn's boosting, and what split conformal intervals of it cover."""
    rows, fold = NumberRows(setup), setup.plan.validation
    validation, sample = rows.sample(fold), rows.sample(setup.plan.test)
    holdout, test = rows.holdout(fold, validation).sample, rows.holdout(setup.plan.test, sample).sample
    calibrated = _fit(validation.matrix, validation.labels).predict(holdout.matrix)
    interval = conformal.calibrate(holdout.labels, calibrated, setup.config.task.coverage)
    scores = _fit(sample.matrix, sample.labels).predict(matrix(sample.inputs, test.rows))
    low, high = conformal.bound(scores, interval)
    off = scores - test.labels
    covered = float(((low <= test.labels) & (test.labels <= high)).mean())
    return {"mae": float(np.abs(off).mean()), "rmse": float(np.sqrt(np.square(off).mean())), "coverage": covered}


def _fit(inputs: Any, labels: Any) -> Any:
    return HistGradientBoostingRegressor(loss="poisson", random_state=0).fit(inputs, labels)


def main() -> None:
    """Print a table a world."""
    for title, world in WORLDS.items():
        config = parse(configs.load("demand") | {"simulator": world})
        assert isinstance(config, RegressionConfig)
        with tempfile.TemporaryDirectory() as folder:
            setup = prepare(config, Path(folder))
            ours, theirs = evaluate(setup, Path(folder)), compare(setup)
        print(f"{title}: {ours.test.rows:,} test rows\n{'':24}{'MAE':>8}{'RMSE':>8}{'coverage':>10}")
        for name, measured in (ours.naive | ours.models).items():
            covered = f"{ours.coverage.value:.3f}" if name == ours.selected else "-"
            print(f"{name:24}{measured['mae']:8.3f}{measured['rmse']:8.3f}{covered:>10}")
        print(f"{'HistGradientBoosting':24}{theirs['mae']:8.3f}{theirs['rmse']:8.3f}{theirs['coverage']:10.3f}\n")


if __name__ == "__main__":
    main()
