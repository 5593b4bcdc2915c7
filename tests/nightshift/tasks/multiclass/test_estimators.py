"""Graphs of candidates beside their libraries: whatever the classes, those that are missing and missing numbers."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightshift.config.multiclass import MulticlassKind
from nightshift.models.graph import Graph
from nightshift.tasks.fitting import FitSpec
from nightshift.tasks.multiclass import estimators

PARAMETERS: dict[MulticlassKind, dict[str, Any]] = {
    MulticlassKind.XGBOOST: {"n_estimators": 5, "max_depth": 3, "tree_method": "hist"},
    MulticlassKind.LOGISTIC_REGRESSION: {},
    MulticlassKind.RANDOM_FOREST: {"n_estimators": 5, "max_depth": 4},
}


@pytest.mark.parametrize("kind", MulticlassKind)
@settings(max_examples=8, deadline=None)
@given(
    seed=st.integers(0, 1000),
    present=st.sets(st.integers(0, 6), min_size=2),
    missing=st.sampled_from([0.0, 0.2]),
)
def test_a_graph_scores_what_its_library_does(
    kind: MulticlassKind, seed: int, present: set[int], missing: float
) -> None:
    random = np.random.default_rng(seed)
    matrix = random.normal(size=(200, 3)).astype(np.float32)
    labels = np.array(sorted(present))[np.argsort(matrix[:, 0]) % len(present)]
    matrix[random.random(matrix.shape) < missing] = np.nan
    spec = FitSpec("parameters", PARAMETERS[kind], 0, 1, "cpu", nullable=missing > 0)

    fitted = estimators.fit(kind, spec, matrix, labels, 7)

    scores, absent = Graph(fitted.graph).score(matrix), [number for number in range(7) if number not in present]
    assert scores.shape == (200, 7)
    assert scores == pytest.approx(fitted.predict(matrix), abs=1e-5)
    assert scores.sum(axis=1) == pytest.approx(1, abs=1e-5)
    assert (scores[:, absent] < 1e-6).all()
