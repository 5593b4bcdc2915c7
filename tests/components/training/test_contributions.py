"""Contributions of inputs: those of the libraries, and Shapley's of any game small enough to play through."""

import json
from dataclasses import replace
from functools import partial
from itertools import combinations
from math import factorial
from typing import Any

import numpy as np
import pytest
import xgboost
from hypothesis import given, settings
from hypothesis import strategies as st

from nightshift.config.parameters import CatBoostParameters
from nightshift.contracts import package
from nightshift.models.contributions import Contributions, Term, TreePaths
from nightshift.models.graph import Graph
from nightshift.tasks.fitting import FitSpec, Fitted, with_reasons
from nightshift.tasks.onnx_export import Forest, Tree
from nightshift.tasks.tabular import estimators
from nightshift.tasks.tree_paths import split_margin
from tests.components.training import samples
from tests.components.training.test_candidates import numbers, train

MATRIX, LABELS = numbers(0)
ROWS = numbers(1)[0][:300]  # of a fifth input that was never missing in training, a third is


def spec(parameters: dict[str, Any], **options: Any) -> FitSpec:
    return FitSpec("p", parameters, 0, 1, "cpu", nullable=True, **options)


def contributions(kind: str, parameters: dict[str, Any], **options: Any) -> Contributions:
    fitted = with_reasons(estimators.fit(kind, spec(parameters, **options), MATRIX, LABELS))
    return Contributions.read(dict(fitted.save_files())["reasons.safetensors"])


@pytest.mark.parametrize("depth", [1, 3, 8])
def test_contributions_of_xgboost_are_its_own_treeshap_and_with_the_bias_its_margin(depth):
    parameters = {"n_estimators": 30, "max_depth": depth, "learning_rate": 0.3}
    booster = xgboost.XGBClassifier(**parameters, random_state=0, n_jobs=1).fit(MATRIX, LABELS).get_booster()
    rows = xgboost.DMatrix(ROWS)
    mine = contributions("xgboost", parameters)

    computed = mine.compute(ROWS)

    theirs = booster.predict(rows, pred_contribs=True)
    assert np.abs(computed - theirs[:, :-1]).max() < 1e-5
    assert np.abs(mine.bias - theirs[:, -1]).max() < 1e-5
    assert np.abs(computed.sum(axis=1) + mine.bias - booster.predict(rows, output_margin=True)).max() < 1e-5
    assert np.abs(computed).max() > 0.5


def test_contributions_of_lightgbm_are_its_own():
    lightgbm = pytest.importorskip("lightgbm")
    own = {"objective": "binary", "seed": 0, "num_threads": 1, "verbosity": -1}
    own |= {"deterministic": True, "force_row_wise": True}
    booster = lightgbm.train(own, lightgbm.Dataset(MATRIX, LABELS), 20)
    mine = contributions("lightgbm", {"n_estimators": 20})

    theirs = booster.predict(ROWS, pred_contrib=True)

    assert np.abs(mine.compute(ROWS) - theirs[:, :-1]).max() < 1e-5
    assert mine.bias == pytest.approx(theirs[0, -1], abs=1e-5)


def test_contributions_of_catboost_are_its_own_where_training_rows_reach_every_leaf():
    catboost = pytest.importorskip("catboost")
    parameters = CatBoostParameters(n_estimators=20, depth=1).model_dump(exclude_none=True)
    own = {"random_seed": 0, "thread_count": 1, "verbose": False, "allow_writing_files": False}
    model = catboost.CatBoostClassifier(**parameters, **own).fit(MATRIX, LABELS)
    mine = contributions("catboost", {"n_estimators": 20, "depth": 1})

    theirs = model.get_feature_importance(catboost.Pool(ROWS), type="ShapValues")

    assert np.abs(mine.compute(ROWS) - theirs[:, :-1]).max() < 1e-6
    assert mine.bias == pytest.approx(theirs[0, -1], abs=1e-6)


SMALL = {"n_estimators": 10, "max_depth": 4}
KINDS = {"catboost": {"n_estimators": 20}, "logistic_regression": {}, "mlp": {"hidden": 16, "layers": 2, "epochs": 3}}


@pytest.mark.parametrize(("kind", "parameters"), KINDS.items())
def test_contributions_and_the_bias_are_the_margin_of_the_graph(kind, parameters):
    mine = contributions(kind, parameters)
    score = Graph(estimators.fit(kind, spec(parameters), MATRIX, LABELS).graph).score(ROWS)

    margin = mine.compute(ROWS).sum(axis=1) + mine.bias

    assert np.abs(1 / (1 + np.exp(-margin)) - score).max() < 1e-6


def test_a_forest_adds_up_to_its_probability():
    mine = contributions("random_forest", {"n_estimators": 10, "max_depth": 6})
    fitted = estimators.fit("random_forest", spec({"n_estimators": 10, "max_depth": 6}), MATRIX, LABELS)

    assert np.abs(mine.compute(ROWS).sum(axis=1) + mine.bias - Graph(fitted.graph).score(ROWS)).max() < 1e-6


def test_a_linear_model_has_coefficients_times_distances_from_the_means():
    mine = contributions("logistic_regression", {})
    means = np.nanmean(MATRIX, axis=0, dtype=np.float64).astype(np.float32).reshape(1, -1)
    one = means + np.eye(5, dtype=np.float32)

    slopes = np.diag(mine.compute(one))

    assert np.abs(mine.compute(means)).max() < 1e-6
    assert np.allclose(mine.compute(means + 3 * np.eye(5, dtype=np.float32)), np.diag(3 * slopes), atol=1e-4)


def test_inputs_that_a_candidate_does_not_take_contribute_nothing():
    computed = contributions("xgboost", {"n_estimators": 10}, columns=[0, 2]).compute(ROWS)

    assert computed[:, [1, 3, 4]].tolist() == np.zeros((len(ROWS), 3)).tolist()
    assert (np.abs(computed[:, [0, 2]]).max(axis=0) > 0.1).all()


def blend(*kinds: str) -> Fitted:
    members = {kind: partial(estimators.fit, kind, spec(KINDS.get(kind, SMALL)), MATRIX, LABELS) for kind in kinds}
    return estimators.fit("ensemble", spec({}, members=members), MATRIX, LABELS)


def test_contributions_to_an_ensemble_of_logits_are_the_mean_of_those_to_its_members():
    blended = blend("xgboost", "logistic_regression")
    mine, score = Contributions(blended.split_margin()), Graph(blended.graph).score(ROWS)

    margin = mine.compute(ROWS).sum(axis=1) + mine.bias

    assert np.abs(1 / (1 + np.exp(-margin)) - score).max() < 1e-6


def test_an_ensemble_with_a_forest_whose_sum_is_no_logit_has_none():
    assert list(with_reasons(blend("logistic_regression", "random_forest")).save_files()) == []


@st.composite
def games(draw: st.DrawFn) -> TreePaths:
    """Leaves with any shares, over three inputs that are 0 or 1 and at most one condition on each."""
    leaves, shape = 4, (3, 4)
    share = np.array(draw(st.lists(st.floats(0.05, 1), min_size=12, max_size=12)), np.float32).reshape(shape)
    wanted = np.array(draw(st.lists(st.integers(0, 2), min_size=12, max_size=12))).reshape(shape)
    low, high = np.where(wanted == 1, 0.5, -np.inf), np.where(wanted == 0, 0.5, np.inf)
    value = np.array(draw(st.lists(st.floats(-2, 2), min_size=leaves, max_size=leaves)), np.float32)
    share = np.where(wanted == 2, 1, share).astype(np.float32)
    feature = np.repeat(np.arange(3, dtype=np.float32), leaves).reshape(shape)
    bounds = (low.astype(np.float32), high.astype(np.float32))
    return TreePaths(feature, *bounds, np.zeros(shape, np.float32), share, value, np.zeros(1, np.float32))


@settings(max_examples=30, deadline=None)
@given(game=games(), row=st.lists(st.sampled_from([0.0, 1.0]), min_size=3, max_size=3))
def test_a_contribution_is_the_mean_over_all_orders_of_what_an_input_adds(game, row):
    values = np.array(row, np.float32)
    holds = (values[:, None] >= game.low) & (values[:, None] < game.high)

    def worth(known: tuple[int, ...]) -> float:
        rest = [number for number in range(3) if number not in known]
        passed = holds[list(known)].prod(axis=0) * game.share[rest].astype(float).prod(axis=0)
        return float(passed @ game.value.astype(float))

    for player in range(3):
        others = [number for number in range(3) if number != player]
        subsets = [subset for size in range(3) for subset in combinations(others, size)]
        weights = [factorial(len(subset)) * factorial(2 - len(subset)) / 6 for subset in subsets]
        expected = sum(
            weight * (worth((*subset, player)) - worth(subset)) for weight, subset in zip(weights, subsets, strict=True)
        )
        assert game.contribute(values)[player] == pytest.approx(expected, abs=1e-9)


def test_a_file_gives_back_the_same_bits_and_is_json_and_numbers():
    mine = contributions("xgboost", {"n_estimators": 10})
    content = mine.content
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])

    again = Contributions.read(content)

    assert again.compute(ROWS).tobytes() == mine.compute(ROWS).tobytes()
    assert {entry["dtype"] for entry in header.values()} == {"F32"}
    assert Contributions([Term(again.terms[0].margin, weight=0.5)]).bias == again.bias / 2


def test_trees_too_large_to_keep_have_none():
    leaf, cover = np.array([-1]), np.ones(1)
    stump = Tree(leaf, leaf, leaf, np.zeros(1, np.float32), np.ones(1, np.float32), cover=cover)
    forest = Forest([stump] * 3, 1, "BRANCH_LT", 0.0, "Sigmoid")

    assert [term.margin.bias for term in split_margin(forest, most=3)] == [3.0]
    assert split_margin(forest, most=2) == ()
    assert split_margin(forest._replace(trees=[replace(stump, cover=None)])) == ()


def test_a_package_has_the_reasons_of_the_candidate_that_scores_and_they_are_part_of_what_it_is():
    trained, matrix = train({"boosted": samples.MODELS["boosted"]})
    files = dict(trained.files)
    mine = Contributions.read(files[package.REASONS])
    described = package.File.describe(package.REASONS, files[package.REASONS], package.Format.SAFETENSORS)
    complete = trained.package.model_copy(update={"files": [*trained.package.files, described]})

    margin = mine.compute(matrix).sum(axis=1) + mine.bias

    score = Graph(trained.graphs["boosted"]).score(matrix)
    assert np.abs(1 / (1 + np.exp(-margin)) - score).max() < 1e-6
    assert complete.sha256 != trained.package.sha256
    assert complete.reasons == described
    assert trained.package.reasons is None
