"""Every kind of model: its graph scores as its library does, and the same job gives the same bytes."""

import importlib.util
import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightshift import candidates
from nightshift.models.graph import Graph
from nightshift.runtime.errors import UserError
from nightshift.tasks.fitting import RESERVED, FitSpec
from nightshift.tasks.tabular import estimators
from tests.components.training import samples

KINDS = {model["kind"]: model["parameters"] for model in samples.MODELS.values()}
MATRIX, LABELS = samples.matrix()


def test_every_kind_of_the_config_has_an_estimator_and_a_test():
    assert set(candidates.BUILT_IN) == {*KINDS, "lightgbm", "catboost", candidates.ENSEMBLE}


def job(parameters: dict[str, Any], seed: int = 0, device: str = "cpu") -> FitSpec:
    return FitSpec("task.candidates.mine.parameters", parameters, seed, 2, device)


VARIANTS = [
    *KINDS.items(),
    ("xgboost", {"n_estimators": 20, "tree_method": "exact", "max_depth": 6, "learning_rate": 0.3}),
    ("xgboost", {"n_estimators": 5, "tree_method": "hist", "max_bin": 16, "base_score": 0.1, "subsample": 0.5}),
    ("mlp", {"hidden": 16, "layers": 3, "epochs": 2, "threads": 2}),
    ("logistic_regression", {"C": 0.01, "class_weight": "balanced"}),
    ("random_forest", {"n_estimators": 20}),
]


@pytest.mark.parametrize(("kind", "parameters"), VARIANTS)
def test_a_graph_scores_as_the_library_does(kind, parameters):
    fitted = estimators.fit(kind, job(parameters), MATRIX, LABELS)
    rows = np.vstack([samples.matrix(seed=1)[0], MATRIX])  # the training rows hit thresholds exactly

    scores = Graph(fitted.graph, threads=2).score(rows)

    assert np.abs(scores - fitted.predict(rows)).max() < 1e-5
    assert scores.std() > 0.01


def holed(rows: np.ndarray, columns: set[int], seed: int) -> np.ndarray:
    """The rows without a twentieth of the numbers of some columns."""
    holes = np.random.default_rng(seed).random(rows.shape) < 0.05
    return np.where(holes & np.isin(np.arange(rows.shape[1]), list(columns)), np.nan, rows).astype(np.float32)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=6, deadline=None)
@given(trained=st.sets(st.integers(0, 2)), scored=st.sets(st.integers(0, 2)))
def test_whatever_is_missing_a_graph_scores_as_the_library_does_and_never_nan(kind, trained, scored):
    nullable = replace(job(KINDS[kind]), nullable=True)
    fitted = estimators.fit(kind, nullable, holed(MATRIX, trained, 0), LABELS)
    rows = np.vstack([holed(MATRIX, scored, 1), np.full((1, MATRIX.shape[1]), np.nan, np.float32)])

    scores = Graph(fitted.graph, threads=2).score(rows)

    assert np.isfinite(scores).all()
    assert np.abs(scores - fitted.predict(rows)).max() < 1e-5


@pytest.mark.parametrize("kind", ["mlp", "logistic_regression"])
def test_a_missing_number_scores_as_the_mean_of_the_training_rows(kind):
    fitted = estimators.fit(kind, replace(job(KINDS[kind]), nullable=True), holed(MATRIX, {0}, 0), LABELS)
    row = MATRIX[:1].copy()
    row[0, 0] = np.nanmean(holed(MATRIX, {0}, 0)[:, 0])
    missing = np.where(np.arange(3) == 0, np.nan, row).astype(np.float32)

    assert Graph(fitted.graph).score(missing) == pytest.approx(Graph(fitted.graph).score(row), abs=1e-6)


def test_cumls_forest_takes_no_missing_numbers_and_says_what_does():
    spec = replace(job(KINDS["random_forest"], device="cuda"), nullable=True)
    with pytest.raises(UserError, match=r"leave limits\.nullable empty, take kind xgboost, or run with --device cpu"):
        estimators.fit("random_forest", spec, MATRIX, LABELS)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("size", [32, 33])
def test_a_table_that_does_not_fit_onto_the_device_trains_the_same_network(size, order):
    takers = set()

    class Table(np.ndarray):
        def __getitem__(self, rows):
            takers.add(threading.current_thread())
            return super().__getitem__(rows)

    matrix = np.asarray(MATRIX, order=order).view(Table)
    whole = job({**KINDS["mlp"], "batch_size": size})
    expected = estimators.fit("mlp", whole, matrix, LABELS).graph
    takers.clear()

    assert estimators.fit("mlp", replace(whole, resident=0), matrix, LABELS).graph == expected
    assert takers > {threading.main_thread()}


@pytest.mark.parametrize("kind", ["mlp", "random_forest"])
def test_another_seed_gives_another_model(kind):
    first, other = (estimators.fit(kind, job(KINDS[kind], seed), MATRIX, LABELS).graph for seed in (0, 1))

    assert first != other


@pytest.mark.parametrize("kind", KINDS)
def test_positives_get_higher_scores_than_the_rest(kind):
    fitted = estimators.fit(kind, job(KINDS[kind]), MATRIX, LABELS)
    unseen, labels = samples.matrix(seed=1)

    scores = Graph(fitted.graph).score(unseen)

    assert scores[labels == 1].mean() > 2 * scores[labels == 0].mean()


@pytest.mark.parametrize(
    ("kind", "wrong", "closest"),
    [
        ("xgboost", "max_dept", "max_depth"),
        ("mlp", "epoch", "epochs"),
        ("logistic_regression", "max_iters", "max_iter"),
        ("random_forest", "n_estimator", "n_estimators"),
    ],
)
def test_an_unknown_parameter_is_named_with_its_place_and_the_closest_known_one(kind, wrong, closest):
    message = rf"task\.candidates\.mine\.parameters\.{wrong}: unknown; .*; did you mean '{closest}'\?"
    with pytest.raises(UserError, match=message):
        estimators.fit(kind, job({wrong: 1}), MATRIX, LABELS)


@pytest.mark.parametrize("parameter", sorted(RESERVED))
def test_what_the_step_sets_itself_is_not_taken_from_the_parameters(parameter):
    with pytest.raises(UserError, match=rf"parameters\.{parameter}: unknown"):
        estimators.fit("xgboost", job({parameter: 1}), MATRIX, LABELS)


@pytest.mark.parametrize(
    ("kind", "parameters", "message"),
    [
        ("xgboost", {"tree_method": "fast"}, "XGBClassifier refuses them: .*fast"),
        ("xgboost", {"n_estimators": 2.5}, "XGBClassifier refuses them: .*float"),
        ("logistic_regression", {"C": -1.0}, "LogisticRegression refuses them: .*'C'"),
        ("random_forest", {"n_estimators": 0}, "RandomForestClassifier refuses them: .*'n_estimators'"),
    ],
)
def test_a_value_that_the_library_refuses_is_reported_in_one_line(kind, parameters, message):
    with pytest.raises(UserError, match=rf"task\.candidates\.mine\.parameters: {message}") as caught:
        estimators.fit(kind, job(parameters), MATRIX, LABELS)
    assert "\n" not in str(caught.value)


def test_exact_trees_are_refused_on_the_gpu_with_what_to_write_instead():
    with pytest.raises(UserError, match=r"tree_method is 'exact'.*on the CPU only.*hist and max_bin: 1024"):
        estimators.fit("xgboost", job({"tree_method": "exact"}, device="cuda"), MATRIX, LABELS)


@pytest.mark.skipif(importlib.util.find_spec("cuml") is not None, reason="cuML is installed here")
@pytest.mark.parametrize("kind", ["logistic_regression", "random_forest"])
def test_the_gpu_without_cuml_is_refused_and_never_replaced_by_the_cpu(kind):
    with pytest.raises(UserError, match=r"--device cuda needs cuML .* run with --device cpu"):
        estimators.fit(kind, job({}, device="cuda"), MATRIX, LABELS)
