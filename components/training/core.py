"""Fit the candidates, choose one on the validation fold, fit all again on the newest labelled days."""

import hashlib
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from components.common.config import Config
from components.common.contracts.package import Graph, Inputs, Package
from components.common.errors import UserError
from components.common.splits import Days, Fold, Plan, rows_of, test_rows
from components.tabular.metrics import Metrics, evaluate
from components.tabular.scaler import Matrix
from components.training import estimators
from components.training.estimators import Fitted, Job, Labels

log = logging.getLogger("nightshift")

REFERENCE_ROWS = 10_000
CHECKED_ROWS = 2_000
TOLERANCE = 1e-5


@dataclass(frozen=True)
class Candidate:
    """A fitted candidate: its ONNX graph and the seconds its fit took."""

    graph: bytes
    seconds: float


@dataclass(frozen=True)
class Choice:
    """What the validation fold decided.

    Attributes:
        metrics: candidate -> metrics on the fold's test rows.
        selected: the best candidate.
        reason: why, as a sentence.
        threshold: score from which an event is flagged.
        window: the fold's test days, rows and positives.
    """

    metrics: dict[str, Metrics]
    selected: str
    reason: str
    threshold: float
    window: dict[str, Any]


@dataclass(frozen=True)
class Trained:
    """A model as `components.common.contracts.package.save` takes it."""

    package: Package
    graphs: dict[str, bytes]
    reference: pd.DataFrame


@dataclass(frozen=True)
class Setting:
    """What stays the same through a training.

    Attributes:
        config: the use case.
        numeric: numeric inputs, in order.
        categorical: categorical inputs, in order.
        device: `cpu` or `cuda`.
    """

    config: Config
    numeric: list[str]
    categorical: list[str]
    device: str


def train(setting: Setting, plan: Plan, features: pd.DataFrame, lineage: Mapping[str, str]) -> Trained:
    """Choose a model and fit it.

    Args:
        setting: config, inputs, device.
        plan: the windows of the logical date.
        features: `event_time`, `customer`, `label` and the inputs, from the first training day of the
            validation fold to the last one of the test fold.
        lineage: hashes of the tables, kept in the package's details.

    Raises:
        UserError: when a window has no positive, or a library refuses a candidate's parameters.
    """
    choice = choose(setting, plan.validation, features)
    log.info("%s", choice.reason)
    rows = labelled(rows_of(features, plan.test.train), plan.test.train)
    inputs = Inputs.seen_in(rows, setting.numeric, setting.categorical)
    candidates = fit_all(setting, inputs, rows)
    constant = [name for name in inputs.columns if (rows[name] == rows[name].iloc[0]).all()]
    if constant:
        log.warning("the same in every training row, so nothing is learned from: %s", ", ".join(constant))
    details = {
        "train": window(rows, plan.test.train),
        "constant": constant,
        "validation": choice.window,
        "device": setting.device,
        "seed": setting.config.task.seed,
        "selected_by": setting.config.task.select_by,
        "reason": choice.reason,
        **lineage,
    }
    entries = {name: _entry(setting, name, candidate, choice) for name, candidate in candidates.items()}
    graphs = {name: candidate.graph for name, candidate in candidates.items()}
    package = Package(inputs, choice.selected, entries, choice.threshold, details)
    return Trained(package, graphs, reference(rows, inputs, graphs[choice.selected], setting.config.task.seed))


def choose(setting: Setting, fold: Fold, features: pd.DataFrame) -> Choice:
    """Fit every candidate on a fold's training days, measure it on the fold's test rows, take the best."""
    config = setting.config
    seen = labelled(rows_of(features, fold.train), fold.train)
    unseen = labelled(test_rows(features, fold, config.protocol.drop_compromised), fold.test)
    inputs = Inputs.seen_in(seen, setting.numeric, setting.categorical)
    matrix, threads = inputs.matrix(unseen), config.task.threads
    scores, metrics = {}, {}
    for name, candidate in fit_all(setting, inputs, seen).items():
        scores[name] = Graph(candidate.graph, threads).score(matrix)
        metrics[name] = evaluate(unseen, scores[name], config.evaluation.top_k)
        log.info("%s: validation average precision %.4f", name, metrics[name]["average_precision"])
    selected, reason = select(metrics, config.task.select_by, fold.test)
    flagged = config.evaluation.top_k * len(list(fold.test))
    return Choice(metrics, selected, reason, threshold(scores[selected], flagged), window(unseen, fold.test))


def fit_all(setting: Setting, inputs: Inputs, rows: pd.DataFrame) -> dict[str, Candidate]:
    """Fit every candidate of the config on some labelled rows."""
    task = setting.config.task
    matrix, labels = inputs.matrix(rows), rows["label"].to_numpy(dtype=np.int8)
    assert np.isfinite(matrix).all(), "ingestion lets finite numbers through only"
    candidates = {}
    for name, model in task.candidates.items():
        log.info("%s: fitting %d rows", name, len(rows))
        job = Job(f"task.candidates.{name}.parameters", model.parameters, task.seed, task.threads, setting.device)
        started = time.perf_counter()
        fitted = estimators.fit(model.kind, job, matrix, labels)
        candidates[name] = Candidate(fitted.graph, round(time.perf_counter() - started, 3))
        log.info("%s: fitted in %.1f s", name, candidates[name].seconds)
        check_export(fitted, matrix, labels)
    return candidates


def check_export(fitted: Fitted, matrix: Matrix, labels: Labels) -> None:
    """Compare a graph's scores with the library's own, on a sample with as many positives as it can hold."""
    positives = np.flatnonzero(labels)[: CHECKED_ROWS // 2]
    spread = np.arange(0, len(matrix), -(-2 * len(matrix) // CHECKED_ROWS))
    rows = matrix[np.concatenate([positives, spread])]
    gap = float(np.abs(Graph(fitted.graph).score(rows) - fitted.predict(rows)).max())
    assert gap <= TOLERANCE, f"the exported graph's scores differ from the library's by {gap}"


def labelled(rows: pd.DataFrame, days: Days) -> pd.DataFrame:
    """Return the rows when they can train or judge a model.

    Raises:
        UserError: when there is no positive among them, or nothing but positives.
    """
    assert rows["label"].notna().all(), f"labels of {days} are due"
    positives = int(rows["label"].sum())
    if not 0 < positives < len(rows):
        raise UserError(
            f"{days}: {positives} positives in {len(rows)} rows, and a model needs some of both; "
            "choose another --date, or widen protocol.train_days and protocol.test_days"
        )
    return rows


def window(rows: pd.DataFrame, days: Days) -> dict[str, Any]:
    """Describe some rows: first and last day, rows, positives."""
    positives = int(rows["label"].sum())
    return {"first": str(days.first), "last": str(days.last), "rows": len(rows), "positives": positives}


def select(metrics: Mapping[str, Metrics], by: str, days: Days) -> tuple[str, str]:
    """Return the candidate with the highest metric, the first one of equals, and a sentence that says so."""
    values: dict[str, float] = {name: measured[by] for name, measured in metrics.items()}  # type: ignore[literal-required]
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
    return columns.assign(score=Graph(graph).score(inputs.matrix(sample)))


def _entry(setting: Setting, name: str, candidate: Candidate, choice: Choice) -> dict[str, Any]:
    model = setting.config.task.candidates[name]
    return {
        "file": f"{name}.onnx",
        "sha256": hashlib.sha256(candidate.graph).hexdigest(),
        "kind": model.kind,
        "parameters": dict(model.parameters),
        "validation": choice.metrics[name],
        "seconds": candidate.seconds,
    }
