"""How far a network's view of the newest rows lies from its view of rows it had not seen: three effect sizes.

A row is seen as its embedding, what the network's last layer takes, standardized by the reference. Each effect comes
with what samples of these sizes show once in 1 / `RARE` comparisons where nothing has changed, rows being independent.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import betabinom, gamma, norm

Floats = npt.NDArray[np.floating]

RARE = 1e-4  # several effects, every day: once in years
NEIGHBOR = 10
KNOWN = 0.98  # share of the reference that counts as known
FOLDS = 3
PERMUTATIONS = 100  # enough for two moments


@dataclass(frozen=True)
class EffectSize:
    """How far something has moved.

    Attributes:
        value: the effect size; 0 on average, or the share expected, where nothing has changed.
        chance: what it exceeds by chance once in 1 / `RARE` times.
    """

    value: float
    chance: float


def standardize(reference: Floats, days: Sequence[Floats]) -> tuple[Floats, list[Floats]]:
    """Return the reference, (m, width), and the newest days, (n, width) each, in units of the reference."""
    mean, spread = reference.mean(0), reference.std(0)
    scale = np.where(spread > 0, spread, 1)
    return (reference - mean) / scale, [(day - mean) / scale for day in days]


def novelties(reference: Floats, days: Sequence[Floats]) -> Iterator[tuple[int, EffectSize]]:
    """Yield how many rows the newest day, the newest two and so on have, and the share of them that is far.

    Far from the reference is beyond what `KNOWN` of the reference's own rows are, by the distance to the tenth nearest
    neighbor (Sun et al., Out-of-distribution detection with deep nearest neighbors, 2022). How many of n new values
    exceed the j-th largest of m is beta-binomial, whatever they are distributed by (Gumbel & von Schelling, The
    distribution of the number of exceedances, 1950).
    """
    size = len(reference)
    beyond = max(round((1 - KNOWN) * size), 1)
    # a reference row's nearest neighbor is itself
    limit = np.sort(_smallest(_squares(reference, reference), _neighbor(reference)))[-beyond]
    rows = far = 0
    for day in reversed(days):
        rows += len(day)
        far += int((distances(day, reference) > limit).sum())
        yield rows, EffectSize(far / rows, float(betabinom.isf(RARE, rows, beyond, size - beyond + 1)) / rows)


def distances(rows: Floats, reference: Floats) -> Floats:
    """Return the squared distance of each row, (n, width), to its tenth nearest of the reference, (m, width); (n,)."""
    return _smallest(_squares(rows, reference), _neighbor(reference) - 1)


def separability(reference: Floats, now: Floats) -> EffectSize:
    """Return by how much a classifier tells new rows from the reference better than chance: its ROC AUC less 0.5.

    Logistic regression, on rows it was not fitted on (Lopez-Paz & Oquab, Revisiting classifier two-sample tests, 2017).
    Chance is that of Mann & Whitney's statistic, 1947.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    sides = np.repeat([0, 1], [len(reference), len(now)])
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0)
    model = LogisticRegression(C=0.1, max_iter=1000)
    margins = cross_val_predict(model, np.concatenate([reference, now]), sides, cv=folds, method="decision_function")
    spread = np.sqrt((len(sides) + 1) / (12 * len(reference) * len(now)))
    return EffectSize(float(roc_auc_score(sides, margins)) - 0.5, float(norm.isf(RARE) * spread))


def discrepancy(reference: Floats, now: Floats) -> EffectSize:
    """Return the maximum mean discrepancy between two samples, 0 to 1.42; 0 where the estimate of its square is below.

    The kernel is Gaussian, as wide as the median distance; chance is a gamma distribution with the moments of random
    permutations (Gretton et al., A kernel two-sample test, 2012; A fast, consistent kernel two-sample test, 2009).
    """
    rows = np.concatenate([reference, now])
    squares = _squares(rows, rows).astype(np.float32)
    kernel = np.exp(-squares / (2 * np.median(squares) or 1))
    sides = np.repeat([1 / len(reference), -1 / len(now)], [len(reference), len(now)]).astype(np.float32)
    shuffled = np.random.default_rng(0).permuted(np.tile(sides, (PERMUTATIONS, 1)), axis=1)
    null = np.einsum("pr,pr->p", shuffled @ kernel, shuffled)
    mean, variance = float(null.mean()), float(null.var())
    # less the mean of permutations, which is the bias of the plain estimate
    square = float(sides @ kernel @ sides) - mean
    chance = float(gamma.isf(RARE, mean**2 / variance, scale=variance / mean)) - mean if variance else 0.0
    return EffectSize(max(square, 0) ** 0.5, chance**0.5)


def _squares(rows: Floats, others: Floats) -> Floats:
    """Return the squared distance of each row, (n, width), to each of the others, (m, width); (n, m)."""
    lengths = np.square(rows).sum(1)[:, None] + np.square(others).sum(1)
    squares: Floats = np.maximum(lengths - 2 * rows @ others.T, 0)
    return squares


def _neighbor(reference: Floats) -> int:
    return min(NEIGHBOR, len(reference) - 1)


def _smallest(distances: Floats, index: int) -> Floats:
    """Return each row's smallest value but `index`."""
    values: Floats = np.partition(distances, index, axis=1)[:, index]
    return values
