"""How good the challenger is, and whether it may replace the champion."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.metrics import precision_recall_curve

from components.common.config import Evaluation
from components.common.errors import UserError
from components.common.metrics import Metrics

Floats = npt.NDArray[np.floating[Any]]
Labels = npt.NDArray[np.integer[Any]]

POINTS = 200
CALIBRATION_BINS = 20
SMALLEST_BIN = 20  # rows


@dataclass(frozen=True)
class Contender:
    """A model version, measured on the test rows.

    Attributes:
        sha256: its identity.
        metrics: on the test rows.
    """

    sha256: str
    metrics: Metrics


@dataclass(frozen=True)
class Champion(Contender):
    """The version that serves now.

    Attributes:
        version: its number in the registry.
    """

    version: int


@dataclass(frozen=True)
class Verdict:
    """Whether the challenger may replace the champion.

    Attributes:
        decision: `promote` or `keep` (the champion, if there is one).
        reasons: sentences.
    """

    decision: Literal["promote", "keep"]
    reasons: list[str]


def checked(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the test rows as they are.

    Raises:
        UserError: when there are none, or when one has no label.
    """
    if rows.empty:
        raise UserError("the test days have no rows left to evaluate on; check the date, or drop_compromised")
    unlabelled = rows.loc[rows["label"].isna(), "event_time"]
    if len(unlabelled):
        raise UserError(
            f"{len(unlabelled)} test rows have no label although it is due, the first on {unlabelled.min().date()}; "
            "bring that day's labels and run again from ingestion"
        )
    return rows


def judge(challenger: Contender, champion: Champion | str, frauds: int, limits: Evaluation) -> Verdict:
    """Decide whether the challenger may replace the champion.

    It has to pass the floors first: enough frauds to measure with, and an average precision that is neither
    too low nor too good to be true. Then, against a champion, it has to be another model, and not worse by
    more than the tolerance: the fresher of two equals wins. That it is the fresher one, deployment checks.

    Args:
        challenger: the new model.
        champion: the version that serves, or a sentence why there is none to compare with.
        frauds: in the test rows.
        limits: the gate.
    """
    precision = challenger.metrics["average_precision"]
    refused = _below_floors(precision, frauds, limits)
    if isinstance(champion, str):
        passed = f"The challenger passes the floors with average precision {precision or 0:.3f} on {frauds} frauds."
        return Verdict("keep" if refused else "promote", [champion, *(refused or [passed])])
    return Verdict("keep", refused) if refused else _against(challenger, champion, limits.tolerance)


def curves(labels: Labels, scores: Floats) -> dict[str, dict[str, list[float]]]:
    """Return the precision-recall and calibration curves, at most `POINTS` points each.

    Args:
        labels: 0 or 1, shape (n,).
        scores: probability of fraud, float, shape (n,).
    """
    return {"precision_recall": precision_recall(labels, scores), "calibration": calibration(labels, scores)}


def precision_recall(labels: Labels, scores: Floats) -> dict[str, list[float]]:
    """Return precision over recall, recall ascending from 0; empty without a fraud.

    Args:
        labels: 0 or 1, shape (n,).
        scores: float, shape (n,).
    """
    if not labels.any():
        return {"recall": [], "precision": []}
    precision, recall, _ = precision_recall_curve(labels, scores, drop_intermediate=True)
    kept = np.unique(np.linspace(0, len(recall) - 1, POINTS).round().astype(int))[::-1]
    return {"recall": recall[kept].tolist(), "precision": precision[kept].tolist()}


def calibration(labels: Labels, scores: Floats) -> dict[str, list[float]]:
    """Return the mean score and the share of frauds by quantile bins of the score, scores ascending.

    Frauds are rare, so bins of equal size would put nearly all of them into the last one: the bins shrink
    by a constant factor towards the top, down to `SMALLEST_BIN` rows. Equal scores share a bin.

    Args:
        labels: 0 or 1, shape (n,).
        scores: float, shape (n,).
    """
    above = np.geomspace(1, min(1, SMALLEST_BIN / len(scores)), CALIBRATION_BINS)
    edges = np.unique(np.quantile(scores, 1 - above, method="inverted_cdf"))
    frame = pd.DataFrame({"score": scores.astype(float), "label": labels})
    bins = frame.groupby(np.searchsorted(edges, scores, side="right")).agg(
        predicted=("score", "mean"), observed=("label", "mean"), count=("label", "size")
    )
    return {name: bins[name].tolist() for name in ("predicted", "observed", "count")}


def _below_floors(precision: float | None, frauds: int, limits: Evaluation) -> list[str]:
    refused = []
    if frauds < limits.min_frauds:
        refused.append(f"The test days hold {frauds} frauds; fewer than {limits.min_frauds} decide nothing.")
    if precision is None:
        refused.append("The test days hold one class only, so average precision has no meaning.")
    elif precision < limits.min_average_precision:
        refused.append(f"Average precision {precision:.3f} is below the floor {limits.min_average_precision:g}.")
    elif precision > limits.max_average_precision:
        refused.append(
            f"Average precision {precision:.3f} is above {limits.max_average_precision:g}: "
            "too good to be true, a feature probably leaks the label."
        )
    return refused


def _against(challenger: Contender, champion: Champion, tolerance: float) -> Verdict:
    name = f"champion version {champion.version}"
    if challenger.sha256 == champion.sha256:
        return Verdict("keep", [f"The challenger is identical to {name}."])
    ours, theirs = challenger.metrics["average_precision"], champion.metrics["average_precision"]
    assert ours is not None and theirs is not None, "the floors hold, so both were measured on frauds"  # noqa: S101
    better = ours >= theirs - tolerance
    sentence = (
        f"The challenger's average precision is {ours:.3f}, that of {name} {theirs:.3f} on the same rows: "
        f"{'not ' if better else ''}worse by more than {tolerance:g}."
    )
    return Verdict("promote" if better else "keep", [sentence])
