"""Contributions to predicted numbers: with the bias they are what goes through the graph's link."""

from typing import Any

import numpy as np
import pytest

from nightshift.config.regression import RegressorKind
from nightshift.models.contributions import Contributions
from nightshift.models.graph import Graph
from nightshift.tasks.fitting import FitSpec
from nightshift.tasks.regression import estimators

KINDS: list[tuple[RegressorKind, dict[str, Any]]] = [
    (RegressorKind.XGBOOST, {"n_estimators": 20}),
    (RegressorKind.XGBOOST, {"n_estimators": 20, "objective": "count:poisson"}),
    (RegressorKind.RANDOM_FOREST, {"n_estimators": 5, "max_depth": 6}),
    (RegressorKind.RIDGE, {}),
    (RegressorKind.POISSON, {}),
    (RegressorKind.MLP, {"hidden_layer_sizes": 8, "max_iter": 200, "learning_rate_init": 0.01}),
]


def rows(seed: int) -> np.ndarray:
    matrix = np.random.default_rng(seed).normal(size=(600, 4)).astype(np.float32)
    matrix[::9, 2] = np.nan
    return matrix


@pytest.mark.parametrize(("kind", "parameters"), KINDS)
def test_contributions_and_the_bias_are_the_prediction_or_its_logarithm(kind, parameters):
    matrix = rows(0)
    labels = np.exp(1 + 0.5 * matrix[:, 0] + 0.2 * np.nan_to_num(matrix[:, 2])).round(1).astype(np.float64)
    spec = FitSpec("p", parameters, 0, 1, "cpu", nullable=True)
    fitted = estimators.fit(kind, spec, matrix, labels, 0.5)
    mine = Contributions.read(Contributions(fitted.split_margin()).content)

    margin = mine.compute(rows(1)).sum(axis=1) + mine.bias

    predicted = np.exp(margin) if kind is RegressorKind.POISSON or "objective" in parameters else margin
    assert predicted == pytest.approx(Graph(fitted.graph).score(rows(1)), rel=1e-5, abs=1e-5)
