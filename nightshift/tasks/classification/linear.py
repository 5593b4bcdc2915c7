"""Logistic regression over words, or over what a pretrained network makes of texts and images."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.linear_model import LogisticRegression
from torch import nn

from nightshift.config.classes import ClassTaskConfig
from nightshift.items.metrics import Labels
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

    def give(self, layer: nn.Module) -> None:
        """Have a linear layer be it."""
        layer.load_state_dict({"weight": torch.from_numpy(self.weights.T), "bias": torch.from_numpy(self.bias)})


def fit(task: ClassTaskConfig, name: str, inputs: Any, known: Labels) -> Line:
    """Fit a candidate, with its parameters where they are logistic regression's.

    Args:
        task: classes and candidates.
        name: of the candidate.
        inputs: (n, inputs), sparse or dense.
        known: numbers of classes, (n,).

    Raises:
        UserError: when a parameter is refused.
    """
    candidate = task.candidates[name]
    parameters = candidate.parameters if candidate.kind == "tfidf" else {}
    spec = FitSpec(networks.field(name), parameters, task.seed, threads=1, device="cpu")
    fitted = fit_estimator(LogisticRegression, spec, {"max_iter": ITERATIONS, "random_state": task.seed}, inputs, known)
    weights = np.zeros((inputs.shape[1], len(task.classes)))
    bias = np.full(len(task.classes), NEVER)
    # of two classes it knows the odds of the second
    weights[:, fitted.classes_] = fitted.coef_.T if len(fitted.classes_) > 2 else np.outer(fitted.coef_, [0, 1])
    bias[fitted.classes_] = fitted.intercept_ if len(fitted.classes_) > 2 else [0, *fitted.intercept_]
    return Line(weights, bias)
