"""Where a model is good, how far its scores can be read as probabilities, and which inputs matter most to it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.metrics import average_precision_score

from nightshift.contracts import evaluation as contract
from nightshift.contracts.preprocessing import DAY, Calendar, Feature

Floats = npt.NDArray[np.floating[Any]]
Mask = npt.NDArray[np.bool_]

BANDS = (0.25, 0.5, 0.75, 0.95)
NEW = 5  # events in the longest window
FEW_POSITIVES = 10
SAMPLE = 5000
SEED = 0


@dataclass(frozen=True)
class Slice:
    """A part of the test rows.

    Attributes:
        name: what they have in common.
        rows: how many.
        positives: among them.
        average_precision: None where fewer than `FEW_POSITIVES` positives, or nothing else, say nothing.
    """

    name: str
    rows: int
    positives: int
    average_precision: float | None


@dataclass(frozen=True)
class CalibrationSummary:
    """The mean score against the share of positives.

    Attributes:
        predicted: mean score of all rows.
        observed: share of positives of all rows.
        error: mean over rows of |predicted - observed| of the row's bin (expected calibration error).
        top_predicted: mean score of the highest bin.
        top_observed: its share of positives.
    """

    predicted: float
    observed: float
    error: float
    top_predicted: float
    top_observed: float

    @classmethod
    def from_curve(cls, curve: contract.Calibration) -> "CalibrationSummary":
        """Sum up a calibration curve."""
        predicted, observed, count = (np.array(values) for values in (curve.predicted, curve.observed, curve.count))
        columns = (predicted, observed, abs(predicted - observed))
        overall, positives, error = (float(np.average(values, weights=count)) for values in columns)
        return cls(overall, positives, error, float(predicted[-1]), float(observed[-1]))


@dataclass(frozen=True)
class Explanation:
    """Where a model is good and why.

    Attributes:
        slices: of the test rows.
        calibration: of its scores.
        importances: (input, drop of average precision), the largest first; empty without both classes.
    """

    slices: list[Slice]
    calibration: CalibrationSummary
    importances: list[tuple[str, float]]


def slices(rows: pd.DataFrame, count: Feature | None) -> list[Slice]:
    """Measure scores on amount bands, customers with a short history and nights; parts without a row are left out.

    Args:
        rows: `label`, `score`, and where they are known `amount`, the count and `is_night`.
        count: of the customer's events in the longest window, the row's own included.
    """
    labels, scores = rows["label"].to_numpy(dtype=np.int8), rows["score"].to_numpy()
    return [_slice(name, labels[mask], scores[mask]) for name, mask in _parts(rows, count) if mask.any()]


def importances(
    rows: pd.DataFrame, columns: list[str], score: Callable[[pd.DataFrame], Floats]
) -> list[tuple[str, float]]:
    """Return by how much average precision drops when one input's values are shuffled, the largest first.

    Empty when the rows are of one class.

    Permutation importance (Breiman, Random Forests, 2001), once per input, on a seeded sample: as many positives
    as fit into a fifth of `SAMPLE`, the rest genuine rows, weighted to the share of positives of all rows.

    Args:
        rows: `label` and the inputs.
        columns: the inputs.
        score: scores a frame, float of shape (rows,).
    """
    if rows["label"].nunique() < 2:
        return []
    random = np.random.default_rng(SEED)
    sample, weights = _sample(rows, random)
    labels = sample["label"].to_numpy(dtype=np.int8)

    def precision(frame: pd.DataFrame) -> float:
        return float(average_precision_score(labels, score(frame), sample_weight=weights))

    whole = precision(sample)
    orders = {column: random.permutation(len(sample)) for column in columns}
    drops = {name: whole - precision(sample.assign(**{name: sample[name].to_numpy()[orders[name]]})) for name in orders}
    return sorted(drops.items(), key=lambda item: -item[1])


def _parts(rows: pd.DataFrame, count: Feature | None) -> Iterator[tuple[str, Mask]]:
    if "amount" in rows:
        yield from _bands(rows["amount"].to_numpy(dtype=float))
    if count and count.name in rows:
        days = f"{count.length / DAY:g} days"
        yield f"short history: at most {NEW} events in {days}", rows[count.name].to_numpy() <= NEW
    if Calendar.IS_NIGHT in rows:
        yield "night", rows[Calendar.IS_NIGHT].to_numpy() == 1


def _bands(amounts: Floats) -> Iterator[tuple[str, Mask]]:
    edges = np.unique(np.quantile(amounts, BANDS))
    band = np.searchsorted(edges, amounts, side="left")
    for number, edge in enumerate(edges):
        yield f"amount {f'{edges[number - 1]:,.2f} to' if number else 'up to'} {edge:,.2f}", band == number
    yield f"amount above {edges[-1]:,.2f}", band == len(edges)


def _slice(name: str, labels: npt.NDArray[np.int8], scores: Floats) -> Slice:
    positives = int(labels.sum())
    telling = FEW_POSITIVES <= positives < len(labels)
    return Slice(name, len(labels), positives, float(average_precision_score(labels, scores)) if telling else None)


def _sample(rows: pd.DataFrame, random: np.random.Generator) -> tuple[pd.DataFrame, Floats]:
    labels = rows["label"].to_numpy(dtype=np.int8)
    positives, genuine = random.permutation(np.flatnonzero(labels)), random.permutation(np.flatnonzero(labels == 0))
    some = positives[: SAMPLE // 5]
    others = genuine[: SAMPLE - len(some)]
    weights = np.repeat([len(positives) / len(some), len(genuine) / len(others)], [len(some), len(others)])
    return rows.iloc[np.concatenate([some, others])].reset_index(drop=True), weights
