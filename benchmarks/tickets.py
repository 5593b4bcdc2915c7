"""Accuracy and macro-F1 of classes beside scikit-learn's HistGradientBoosting, on the same inputs and test days.

`python -m benchmarks.tickets`: two simulated worlds through features, training and evaluation in this process.
"""

import tempfile
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

from benchmarks import figures
from benchmarks.figures import Row
from components.training import core
from nightshift.config import parse
from nightshift.config.multiclass import MulticlassConfig
from nightshift.contracts import package, tables
from nightshift.contracts.evaluation import ClassEvaluation
from nightshift.contracts.tables import Table
from nightshift.data import splits
from nightshift.items.metrics import evaluate as measure
from nightshift.items.metrics import resample
from nightshift.stats.comparison import BootstrapEstimate
from nightshift.tabular.inputs import matrix
from nightshift.tasks.base.features import FeatureSetup
from nightshift.tasks.base.training import TrainingSetup
from nightshift.tasks.multiclass.evaluation import EvaluationTask
from nightshift.tasks.multiclass.features import FeaturesTask
from nightshift.tasks.multiclass.groups import number_groups
from nightshift.tasks.multiclass.simulator import SimulationTask
from nightshift.tasks.multiclass.training import MulticlassRows
from pipelines import configs

DATE = date(2025, 6, 30)
METRICS = ("accuracy", "macro_f1")
WORLDS: dict[str, dict[str, Any]] = {
    "400 tickets a day": {"seed": 0},
    "1,500 tickets a day of 300 customers": {"seed": 1, "items": 1500, "customers": 300},
}


def ingest(config: MulticlassConfig, folder: Path) -> Table:
    """Return the simulated events of a run, under their canonical names."""
    names = {column.name: column.role for column in config.columns.read}
    parts = []
    for day in splits.plan(config, DATE).events:
        rows = SimulationTask().day(config.simulator, day).rename(columns=names)
        typed = rows.assign(
            label=rows["label"].astype("string"), event_time=rows["event_time"].astype("datetime64[us]")
        )
        parts.append(tables.write_partition(str(folder / f"events/{day}.parquet"), day, typed, {}))
    return Table("events", parts)


def prepare(config: MulticlassConfig, folder: Path) -> TrainingSetup[MulticlassConfig]:
    """Return a training on simulated features."""
    plan, events = splits.plan(config, DATE), ingest(config, folder)
    features = FeaturesTask().features(FeatureSetup(config, str(folder / "lake"), events, "cpu", str(folder), ""))
    parts = features.write({day: features.uri(day) for day in plan.features})
    details = features.details([*parts.values()]).details | {"events_sha256": events.sha256}
    return TrainingSetup(config, plan, Table("features", [parts[day] for day in plan.features], details), "cpu")


def evaluate(setup: TrainingSetup[MulticlassConfig], folder: Path) -> ClassEvaluation:
    """Train the shipped candidates and return `evaluation.json`."""
    trained, uri = core.train(setup, MulticlassRows(setup), "benchmark"), str(folder / "model")
    model = package.save(uri, trained.package, trained.graphs, trained.reference, trained.files)
    rows = EvaluationTask().read_test_rows(setup.config, setup.features, setup.plan.test, model)
    measured = {name: rows.measure(uri, model, name) for name in model.candidates}
    evaluated = rows.report(uri, model, measured, "There was no champion to compare with.", None).figures
    assert isinstance(evaluated, ClassEvaluation)
    return evaluated


def compare(setup: TrainingSetup[MulticlassConfig]) -> dict[str, BootstrapEstimate]:
    """Return the metrics of scikit-learn's boosting, fitted as it comes, with 95 % intervals by customer."""
    rows = MulticlassRows(setup)
    sample = rows.sample(setup.plan.test)
    test = rows.holdout(setup.plan.test, sample).sample
    fitted = HistGradientBoostingClassifier(random_state=0).fit(sample.matrix, sample.labels)
    classes = len(setup.config.task.classes)
    scores = np.zeros((len(test.rows), classes))
    scores[:, fitted.classes_] = fitted.predict_proba(matrix(sample.inputs, test.rows))
    drawn = resample(test.labels, scores.argmax(1), number_groups(test.rows), classes)
    measured = measure(test.labels, scores)
    return {
        "accuracy": BootstrapEstimate.from_value(measured["accuracy"], drawn["accuracy"]),
        "macro_f1": BootstrapEstimate.from_value(measured["macro_f1"], drawn["macro_f1"]),
    }


def list_rows(world: str, ours: ClassEvaluation, theirs: Mapping[str, BootstrapEstimate]) -> Iterator[Row]:
    """Yield a row a model, with 95 % intervals in brackets."""
    for name, measured in ours.models.items():
        drawn = ours.intervals[name]
        cells = [f"{measured[metric]:.3f} [{drawn[metric].low:.3f}, {drawn[metric].high:.3f}]" for metric in METRICS]
        yield {"world": world, "model": f"`{name}`", "accuracy": cells[0], "macro F1": cells[1]}
    cells = [str(theirs[metric]) for metric in METRICS]
    yield {"world": world, "model": "HistGradientBoosting", "accuracy": cells[0], "macro F1": cells[1]}


def main() -> None:
    """Publish the figures of all worlds."""
    rows, tested = list[Row](), list[str]()
    for title, world in WORLDS.items():
        config = parse(configs.load("tickets") | {"simulator": world})
        assert isinstance(config, MulticlassConfig)
        with tempfile.TemporaryDirectory() as folder:
            setup = prepare(config, Path(folder))
            ours = evaluate(setup, Path(folder))
            rows += list_rows(title, ours, compare(setup))
        tested.append(f"{ours.test.rows:,}")
    figures.publish(
        "tickets",
        rows,
        f"{' and '.join(tested)} test rows of 14 days after 28 of training; intervals are of a bootstrap of customers. "
        f"The first world is that of `make run CONFIG=tickets DATE={DATE}`.",
    )


if __name__ == "__main__":
    main()
