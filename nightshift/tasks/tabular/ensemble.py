"""A weighted mean of the logits of other candidates, whose weights the validation days say."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from nightshift.models.contributions import Term
from nightshift.tabular.scaler import Matrix
from nightshift.tasks.fitting import FitSpec, Fitted
from nightshift.tasks.tabular import graphs
from nightshift.tasks.tabular.estimators import Labels

Floats = npt.NDArray[np.float64]

DECIMALS = 3  # of a weight, so that the last bits of a score do not change it


def fit(spec: FitSpec, matrix: Matrix, _: Labels) -> Fitted:
    """Fit the members and, where there are validation rows, their weights; see `estimators.fit`."""
    members = {name: fit_member() for name, fit_member in spec.members.items()}
    if spec.validation:
        rows, labels = spec.validation
        weights = find_weights(np.stack([logits(member.predict(rows)) for member in members.values()]), labels)
    else:
        weights = np.array([spec.choices.get(name, 1.0) for name in members])
    shares = weights / weights.sum()
    return Fitted(
        lambda: graphs.average_logits([member.graph for member in members.values()], shares, matrix.shape[1]),
        lambda rows: average([member.predict(rows) for member in members.values()], shares),
        choices=dict(zip(members, weights.tolist(), strict=True)),
        split_margin=lambda: split_margin(members.values(), shares.tolist()),
    )


def split_margin(members: Iterable[Fitted], shares: Iterable[float]) -> list[Term]:
    """Return the terms of the mean of some members' logits; none where a member has none, or others than of a logit."""
    terms = [
        [replace(term, weight=share * term.weight) for term in member.split_margin()]
        for member, share in zip(members, shares, strict=True)
    ]
    complete = all(part and all(term.is_logit for term in part) for part in terms)
    return [*chain.from_iterable(terms)] if complete else []


def logits(scores: npt.NDArray[np.floating]) -> Floats:
    """Return the logits of probabilities, those next to 0 and 1 cut off as the graph does."""
    clipped = scores.astype(np.float32).astype(np.float64).clip(graphs.LEAST, 1 - graphs.LEAST)
    return np.asarray(np.log(clipped / (1 - clipped)))


def average(scores: Sequence[npt.NDArray[np.floating]], shares: Floats) -> Floats:
    """Return the probability of the mean of the members' logits, each (n,)."""
    return np.asarray(1 / (1 + np.exp(-(shares @ np.stack([logits(score) for score in scores])))))


def find_weights(members: Floats, labels: Labels) -> Floats:
    """Return the shares of the members that give the least log loss, a convex problem.

    Args:
        members: their logits, (members, n).
        labels: 0 or 1, (n,).

    Returns:
        not negative, of `DECIMALS` decimals, 1 in all but for rounding.
    """

    def loss(shares: Floats) -> tuple[float, Floats]:
        mean = shares @ members
        slope = 1 / (1 + np.exp(-mean)) - labels
        return float(np.mean(np.logaddexp(0, mean) - labels * mean)), members @ slope / len(labels)

    count = len(members)
    whole = {"type": "eq", "fun": lambda shares: shares.sum() - 1, "jac": np.ones_like}
    best = minimize(loss, np.full(count, 1 / count), jac=True, bounds=[(0, 1)] * count, constraints=whole)
    return np.asarray(best.x.round(DECIMALS) + 0.0)
