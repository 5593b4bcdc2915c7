"""Inputs that rank the test rows nearly as well as the whole model, as what is known only after the outcome does.

When an input was known is not seen from its values, so a person is asked.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn.metrics import average_precision_score, roc_auc_score

from nightshift.stats.ranking import RankingMetrics

Bins = npt.NDArray[np.integer[Any]]
Labels = npt.NDArray[np.integer[Any]]
Floats = npt.NDArray[np.floating[Any]]

AUC_MARGIN = 0.01  # by which the model's ROC AUC may exceed that of an input alone
LOWEST_AUC = 0.8  # below it rows are hardly ranked at all, by the input or by the model
STRONG_AUC = 0.9  # from which on an input alone is too good, whatever the model adds
PRECISION_SHARE = 1 / 3  # of the model's average precision that the input reaches alone
QUANTILES = 16  # of all values, and as many of the positives'
FEWEST_POSITIVES = 10  # in training and in test rows; fewer are ranked well by chance
PRIOR_ROWS = 20  # added to every bin, with the usual share of positives


@dataclass(frozen=True)
class DominantInput:
    """An input that ranks the test rows nearly as well as the model.

    Attributes:
        name: the column.
        is_missingness: whether it takes no more than to know that it is missing.
        auc_roc: of the input alone on the test rows.
        average_precision: the same way.
    """

    name: str
    is_missingness: bool
    auc_roc: float
    average_precision: float

    def __str__(self) -> str:
        return f"Whether {self.name!r} is missing" if self.is_missingness else f"Input {self.name!r}"


def find_dominant_inputs(training: pd.DataFrame, test: pd.DataFrame, model: RankingMetrics) -> list[DominantInput]:
    """Return the inputs that rank the test rows nearly alone, the best first.

    Ranked is by whether there is a value, by the value, and by how many of the training rows in the same bin were
    positive, so the ranking need not follow the order of values, and is not fitted to the test rows.

    Args:
        training: `label` (0 or 1), and the inputs as the user has delivered them.
        test: the same of the test rows.
        model: how good its scores of the test rows are.
    """
    if model["auc_roc"] is None or min(side["label"].sum() for side in (training, test)) < FEWEST_POSITIVES:
        return []
    names = [name for name in test.columns if name != "label"]
    inputs = (next(_measure(training, test, name, model), None) for name in names)
    return sorted((measured for measured in inputs if measured), key=lambda measured: -measured.average_precision)


def _measure(training: pd.DataFrame, test: pd.DataFrame, name: str, model: RankingMetrics) -> Iterator[DominantInput]:
    """Yield an input for each way in which it ranks the rows nearly as well as a model with such metrics."""
    labels = test["label"].to_numpy(dtype=np.int64)
    least = min(STRONG_AUC, max(LOWEST_AUC, (model["auc_roc"] or 0.0) - AUC_MARGIN))
    least_precision = PRECISION_SHARE * (model["average_precision"] or 0.0)
    for number, scores in enumerate(_rank(training["label"].to_numpy(dtype=np.int64), training[name], test[name])):
        alone = float(roc_auc_score(labels, scores))
        if alone >= least:
            measured = DominantInput(name, number == 0, alone, float(average_precision_score(labels, scores)))
            if measured.average_precision >= least_precision:
                yield measured


def _rank(labels: Labels, training: pd.Series, test: pd.Series) -> Iterator[Floats]:
    """Yield scores of the test rows by an input alone, (m,): first by whether it is missing.

    Args:
        labels: of the training rows, 0 or 1, (n,).
        training: the input in the training rows, (n,).
        test: in the test rows, (m,).
    """
    missing = _is_missing(training), _is_missing(test)
    yield _score(missing, labels)
    if pd.api.types.is_numeric_dtype(test):
        values = test.to_numpy(dtype=float)
        for lowest in (False, True):  # a missing value is below all others, or above
            ascending = np.nan_to_num(values, nan=-np.inf if lowest else np.inf, posinf=np.inf, neginf=-np.inf)
            ranks = np.unique(ascending, return_inverse=True)[1].astype(float)
            yield ranks
            yield -ranks
    yield _score(_bin_values(training, test, labels), labels)


def _score(bins: tuple[Bins, Bins], labels: Labels) -> Floats:
    """Return for each test row the share of positives among the training rows in its bin.

    Args:
        bins: of training and test rows, int64 (n,) and (m,).
        labels: of the training rows, 0 or 1, (n,).
    """
    size = 1 + max(int(side.max(initial=0)) for side in bins)
    rows, positives = (np.bincount(bins[0], weights, minlength=size) for weights in (None, labels))
    usual = labels.sum() / max(1, len(labels))
    shares: Floats = (positives + PRIOR_ROWS * usual) / (rows + PRIOR_ROWS)
    return shares[bins[1]]


def _is_missing(values: pd.Series) -> Bins:
    """Return 1 where there is no value, else 0; a category without one is empty."""
    is_empty = False if pd.api.types.is_numeric_dtype(values) else values == ""
    return np.asarray((values.isna() | is_empty).fillna(value=True), dtype=np.int64)


def _bin_values(training: pd.Series, test: pd.Series, labels: Labels) -> tuple[Bins, Bins]:
    """Return the bins of training and test rows: a bin a category, or ranges between quantiles of numbers."""
    if not pd.api.types.is_numeric_dtype(training):
        categories = pd.Index(training.astype(str).unique())
        # an unknown category is -1, a bin of its own
        before, now = (categories.get_indexer(pd.Index(side.astype(str))) + 1 for side in (training, test))
        return before, now
    before, now = (side.to_numpy(dtype=float) for side in (training, test))
    edges = np.concatenate([_quantiles(before), _quantiles(before[labels == 1])])
    # a value at an edge is a bin of its own, since a single value may tell all; NaN sorts last
    edges = np.unique([edges, np.nextafter(edges, -np.inf)])
    first, second = (np.searchsorted(edges, side, side="left") + np.isnan(side) for side in (before, now))
    return first, second


def _quantiles(values: Floats) -> Floats:
    known = values[~np.isnan(values)]
    if not len(known):
        return known
    shares = np.linspace(0, 1, QUANTILES + 1)
    quantiles: Floats = np.quantile(known, shares, method="inverted_cdf")
    return quantiles
