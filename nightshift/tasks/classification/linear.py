"""Logistic regression over words, or over what a pretrained network makes of texts and images."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.linear_model import LogisticRegression
from torch import nn

from nightshift.config.classes import ClassTaskConfig
from nightshift.items.metrics import Flags, Labels
from nightshift.tasks.fitting import FitSpec, fit_estimator
from nightshift.tasks.items import networks

Floats = npt.NDArray[np.float64]

ITERATIONS = 1000
NEVER = -30.0  # the logit of a class that no training row has


@dataclass(frozen=True)
class Line:
    """A linear classifier.

    Attributes:
        weights: (inputs, classes).
        bias: (classes,).
    """

    weights: Floats
    bias: Floats

    @classmethod
    def from_fitted(cls, fitted: Any, classes: int) -> Self:
        """Return scikit-learn's classifier of class numbers; one that it has not seen is never predicted."""
        weights, bias = np.zeros((fitted.coef_.shape[1], classes)), np.full(classes, NEVER)
        # of two classes it knows the odds of the second
        has_several = len(fitted.classes_) > 2
        weights[:, fitted.classes_] = fitted.coef_.T if has_several else np.outer(fitted.coef_, [0, 1])
        bias[fitted.classes_] = fitted.intercept_ if has_several else [0, *fitted.intercept_]
        return cls(weights, bias)

    @classmethod
    def of_each_class(cls, inputs: Any, known: Flags, fit_class: Callable[[Flags], Any]) -> Self:
        """Return a classifier that tells each class from all others; one that all rows have, or none, is constant.

        Args:
            inputs: (n, inputs).
            known: which classes each row has, (n, classes).
            fit_class: fits scikit-learn's classifier of one of its columns, (n,).
        """
        shares = known.mean(0)
        weights, bias = np.zeros((inputs.shape[1], len(shares))), np.where(shares > 0, -NEVER, NEVER)
        for number in np.flatnonzero((shares > 0) & (shares < 1)):
            fitted = fit_class(known[:, number])
            weights[:, number], bias[number] = fitted.coef_[0], fitted.intercept_[0]
        return cls(weights, bias)

    def give(self, layer: nn.Module) -> None:
        """Have a linear layer be it."""
        layer.load_state_dict({"weight": torch.from_numpy(self.weights.T), "bias": torch.from_numpy(self.bias)})


def fit(task: ClassTaskConfig, name: str, inputs: Any, known: Labels) -> Line:
    """Fit a candidate, with its parameters where they are logistic regression's.

    Args:
        task: classes and candidates.
        name: of the candidate.
        inputs: (n, inputs), sparse or dense.
        known: numbers of classes, (n,), or which classes each row has, (n, classes).

    Raises:
        UserError: when a parameter is refused.
    """
    candidate = task.candidates[name]
    parameters = candidate.parameters if candidate.kind == "tfidf" else {}
    spec = FitSpec(networks.field(name), parameters, task.seed, threads=1, device="cpu")
    own = {"max_iter": ITERATIONS, "random_state": task.seed}
    fit_labels = partial(fit_estimator, LogisticRegression, spec, own, inputs)
    if known.ndim == 2:
        return Line.of_each_class(inputs, known.astype(bool), fit_labels)
    return Line.from_fitted(fit_labels(known), len(task.classes))
