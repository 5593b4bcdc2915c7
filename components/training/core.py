"""Fit the candidates, choose one on the validation fold, fit all again on the newest labeled days."""

import logging
import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pandas as pd

from components.common.config import Config
from components.common.contracts.artifact import LabeledWindow
from components.common.contracts.package import Candidate as Entry
from components.common.contracts.package import (
    DecisionRule,
    File,
    Format,
    Inputs,
    Lineage,
    ModelPackage,
    Signature,
    Tabular,
)
from components.common.errors import UserError
from components.common.graph import Graph
from components.common.splits import Days, Fold, Plan, rows_of, test_rows
from components.neural.losses import Points
from components.tabular import inputs as tabular
from components.tabular import windows
from components.tabular.metrics import Metrics, evaluate
from components.tabular.scaler import Matrix
from components.training import estimators
from components.training.estimators import Fitted, Job, Labels

log = logging.getLogger("nightshift")

REFERENCE_ROWS = 10_000
FEW_ROWS = 32  # of each label, on which parameters are tried
CHECKED_ROWS = 2_000
TOLERANCE = 1e-5


@dataclass(frozen=True)
class Candidate:
    """A fitted candidate: its ONNX graph, the seconds its fit took, and the course of its loss."""

    graph: bytes
    seconds: float
    losses: Points = field(default_factory=list)


@dataclass(frozen=True)
class Fits:
    """Fitted candidates.

    Attributes:
        candidates: name -> what can be used.
        dropped: name -> why it cannot, a sentence.
    """

    candidates: dict[str, Candidate]
    dropped: dict[str, str]

    def usable(self) -> Self:
        """Return them as they are.

        Raises:
            UserError: when no candidate is left.
        """
        if not self.candidates:
            told = "; ".join(f"{name}: {reason}" for name, reason in self.dropped.items())
            raise UserError(
                f"task.candidates: none is left ({told}); change their parameters, or add one of another kind"
            )
        return self


@dataclass(frozen=True)
class Validation:
    """What the validation fold says of each candidate that can be used.

    Attributes:
        metrics: candidate -> metrics on the fold's test rows.
        thresholds: candidate -> score from which an event is flagged.
        window: the fold's test days, rows and positives.
        dropped: candidate -> why it cannot be used, a sentence.
    """

    metrics: dict[str, Metrics]
    thresholds: dict[str, float]
    window: LabeledWindow
    dropped: dict[str, str]


@dataclass(frozen=True)
class Trained:
    """A model as `components.common.contracts.package.save` takes it."""

    package: ModelPackage
    graphs: dict[str, bytes]
    reference: pd.DataFrame
    files: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Setting:
    """What stays the same through a training.

    Attributes:
        config: the use case.
        numeric: numeric inputs, in order.
        categorical: categorical inputs, in order.
        device: `cpu` or `cuda`.
        checkpoints: URI of the folder of this training's checkpoints; empty for none.
        tolerance: by how much the scores of a candidate's graph may differ from the library's.
    """

    config: Config
    numeric: list[str]
    categorical: list[str]
    device: str
    checkpoints: str = ""
    tolerance: float = TOLERANCE


def train(setting: Setting, plan: Plan, features: pd.DataFrame, lineage: Mapping[str, str]) -> Trained:
    """Choose a model and fit it.

    Args:
        setting: config, inputs, device.
        plan: the windows of the logical date.
        features: `event_time`, `customer`, `label` and the inputs, from the first training day of the
            validation fold to the last one of the test fold.
        lineage: hashes of the tables and version of the code, kept in the package's lineage.

    Raises:
        UserError: when a window has no positive, or a library refuses a candidate's parameters.
    """
    rows = labelled(rows_of(features, plan.test.train), plan.test.train)  # before hours of work on the other days
    validation = validate(setting, plan.validation, features)
    inputs = tabular.seen_in(rows, setting.numeric, setting.categorical)
    fits = fit_all(setting, inputs, rows, validation.metrics)
    usable = {name: validation.metrics[name] for name in fits.candidates}
    selected, reason = select(usable, setting.config.tabular.select_by, plan.validation.test)
    log.info("%s", reason)
    graphs = {name: candidate.graph for name, candidate in fits.candidates.items()}
    package = ModelPackage(
        files=[File.of(f"{name}.onnx", graph, Format.ONNX) for name, graph in graphs.items()],
        signature=Signature.of_rows(inputs.width),
        preprocessing=Tabular(**dict(inputs), windows=windows.of(setting.config)),
        decision=DecisionRule(threshold=validation.thresholds[selected]),
        selected=selected,
        candidates={name: _entry(setting, name, found, validation) for name, found in fits.candidates.items()},
        dropped=validation.dropped | fits.dropped,
        lineage=Lineage(
            train=window(rows, plan.test.train),
            validation=validation.window,
            selected_by=setting.config.tabular.select_by,
            reason=reason,
            constant=constant(rows, inputs),
            device=setting.device,
            seed=setting.config.tabular.seed,
            **lineage,
        ),
    )
    return Trained(package, graphs, reference(rows, inputs, graphs[selected], setting.config.tabular.seed))


def validate(setting: Setting, fold: Fold, features: pd.DataFrame) -> Validation:
    """Fit every candidate on a fold's training days, and measure it on the fold's test rows."""
    config = setting.config
    seen = labelled(rows_of(features, fold.train), fold.train)
    unseen = labelled(test_rows(features, fold, config.protocol.drop_compromised), fold.test)
    inputs = tabular.seen_in(seen, setting.numeric, setting.categorical)
    matrix, threads = tabular.matrix(inputs, unseen), config.tabular.threads
    metrics, thresholds, flagged = {}, {}, config.evaluation.top_k * len(list(fold.test))
    check(setting, inputs, seen)
    fits = fit_all(setting, inputs, seen, config.tabular.candidates)
    for name, candidate in fits.candidates.items():
        scores = Graph(candidate.graph, threads).score(matrix)
        metrics[name] = evaluate(unseen, scores, config.evaluation.top_k)
        thresholds[name] = threshold(scores, flagged)
        log.info("%s: validation average precision %.4f", name, metrics[name]["average_precision"])
    return Validation(metrics, thresholds, window(unseen, fold.test), fits.dropped)


def fit_all(setting: Setting, inputs: Inputs, rows: pd.DataFrame, names: Iterable[str]) -> Fits:
    """Fit candidates of the config on some labeled rows, and leave out those that ONNX does not give right.

    Raises:
        UserError: when no candidate is left.
    """
    matrix, labels = finite(tabular.matrix(inputs, rows), inputs), rows["label"].to_numpy(dtype=np.int8)
    fits = Fits({}, {})
    for name in names:
        log.info("%s: fitting %d rows", name, len(rows))
        started = time.perf_counter()
        fitted = fit(setting, name, matrix, labels)
        seconds = round(time.perf_counter() - started, 3)
        log.info("%s: fitted in %.1f s", name, seconds)
        gap = export_gap(fitted, matrix, labels)
        accepted(fits, name, Candidate(fitted.graph, seconds, fitted.losses), gap, setting.tolerance)
    return fits.usable()


def check(setting: Setting, inputs: Inputs, rows: pd.DataFrame) -> None:
    """Have each candidate's library take its parameters on a few rows, before the first one is fitted for hours.

    Raises:
        UserError: naming what is refused.
    """
    few = rows.groupby("label").head(FEW_ROWS)
    matrix, labels = finite(tabular.matrix(inputs, few), inputs), few["label"].to_numpy(dtype=np.int8)
    for name in setting.config.tabular.candidates:
        estimators.check(setting.config.tabular.candidates[name].kind, _job(setting, name), matrix, labels)


def accepted(fits: Fits, name: str, candidate: Candidate, gap: float, tolerance: float) -> None:
    """Add a fitted candidate, or why it is dropped: when its graph's scores are further off the library's, or NaN."""
    if gap <= tolerance:
        fits.candidates[name] = candidate
        return
    off = f"Its ONNX graph scores up to {gap:.2g} off the library, more than {tolerance:g}."
    diverged = "Its training diverged: its scores are not numbers. Try a lower learning rate."
    fits.dropped[name] = diverged if math.isnan(gap) else off
    log.warning("%s is left out: %s", name, fits.dropped[name])


def fit(setting: Setting, name: str, matrix: Matrix, labels: Labels) -> Fitted:
    """Fit one candidate of the config."""
    return estimators.fit(setting.config.tabular.candidates[name].kind, _job(setting, name), matrix, labels)


def _job(setting: Setting, name: str) -> Job:
    task, field = setting.config.tabular, f"task.candidates.{name}.parameters"
    parameters = task.candidates[name].parameters
    return Job(field, parameters, task.seed, task.threads, setting.device, task.trainer, setting.checkpoints)


def finite(matrix: Matrix, inputs: Inputs) -> Matrix:
    """Return a matrix as it is.

    Raises:
        UserError: when an input is not a finite float32 in every row.
    """
    wrong = np.flatnonzero(~np.isfinite(matrix).all(axis=0))
    if len(wrong):
        name = inputs.columns[wrong[0]]
        raise UserError(
            f"input {name!r} is missing or beyond the range of float32 (3.4e38) in a training row; "
            "check its values, or leave it out of columns.numeric"
        )
    return matrix


def export_gap(fitted: Fitted, matrix: Matrix, labels: Labels) -> float:
    """Return by how much a graph's scores differ from the library's, on a sample with as many positives as it holds."""
    positives = np.flatnonzero(labels)[: CHECKED_ROWS // 2]
    spread = np.arange(0, len(matrix), -(-2 * len(matrix) // CHECKED_ROWS))
    rows = matrix[np.concatenate([positives, spread])]
    return float(np.abs(Graph(fitted.graph).score(rows) - fitted.predict(rows)).max())


def constant(rows: pd.DataFrame, inputs: Inputs) -> list[str]:
    """Return the inputs that are the same in every row."""
    found = [name for name in inputs.columns if (rows[name] == rows[name].iloc[0]).all()]
    if found:
        log.warning("constant in all training rows, so nothing is learned from: %s", ", ".join(found))
    return found


def labelled(rows: pd.DataFrame, days: Days) -> pd.DataFrame:
    """Return the rows when they can train or judge a model.

    Raises:
        UserError: when a label is missing, when there is no positive among them, or nothing but positives.
    """
    unlabelled = int(rows["label"].isna().sum())
    if unlabelled:
        raise UserError(
            f"{days}: {unlabelled} rows have no label although it is due; bring the labels, run again from ingestion"
        )
    positives = int(rows["label"].sum())
    if not 0 < positives < len(rows):
        raise UserError(
            f"{days}: {positives} positives in {len(rows)} rows, and a model needs some of both; "
            "choose another --date, or widen protocol.train_days and protocol.test_days"
        )
    return rows


def window(rows: pd.DataFrame, days: Days) -> LabeledWindow:
    """Describe some rows: first and last day, rows, positives."""
    positives = int(rows["label"].sum())
    return LabeledWindow(first=days.first, last=days.last, rows=len(rows), positives=positives)


def select(metrics: Mapping[str, Any], by: str, days: Days) -> tuple[str, str]:
    """Return the candidate with the highest metric, the first one of equals, and a sentence that says so."""
    values: dict[str, float] = {name: measured[by] for name, measured in metrics.items()}
    ranking = sorted(values, key=lambda name: -values[name])
    told = ", ".join(f"{name} {values[name]:.4f}" for name in ranking)
    return ranking[0], f"{ranking[0]} has the highest {by.replace('_', ' ')} on the validation days {days}: {told}"


def threshold(scores: Matrix, flagged: int) -> float:
    """Return the score that `flagged` of the scores reach, the lowest score when there are fewer."""
    return float(np.sort(scores)[-min(flagged, len(scores))])


def reference(rows: pd.DataFrame, inputs: Inputs, graph: bytes, seed: int) -> pd.DataFrame:
    """Return at most `REFERENCE_ROWS` rows, drawn by the seed: inputs, `label` and `score`."""
    drawn = np.random.default_rng(seed).permutation(len(rows))[:REFERENCE_ROWS]
    sample = rows.iloc[np.sort(drawn)]
    columns = sample[[*inputs.columns, "label"]].reset_index(drop=True)
    return columns.assign(score=Graph(graph).score(tabular.matrix(inputs, sample)))


def _entry(setting: Setting, name: str, candidate: Candidate, validation: Validation) -> Entry:
    model = setting.config.tabular.candidates[name]
    return Entry(
        kind=model.kind,
        parameters=model.parameters,
        file=f"{name}.onnx",
        validation=dict(validation.metrics[name]),
        seconds=candidate.seconds,
        losses=candidate.losses,
    )
