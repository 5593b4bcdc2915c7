"""Candidates that take some inputs, boosted trees of optional libraries, and ensembles."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from components.training import core
from nightshift.config import parse
from nightshift.contracts.package import ModelPackage
from nightshift.data.splits import rows_of
from nightshift.models.graph import Graph
from nightshift.runtime.errors import UserError
from nightshift.tasks.fitting import FitSpec
from nightshift.tasks.tabular import ensemble, estimators
from nightshift.tasks.tabular.profiling import _spec
from nightshift.tasks.tabular.training import TableRows
from tests.components.training import samples

LINE, FOREST = samples.MODELS["line"], samples.MODELS["forest"]
FEW = {"kind": "logistic_regression", "inputs": ["channel", "amount"]}
MODELS: dict[str, Any] = {
    "blend": {"kind": "ensemble", "members": ["line", "forest", "few"]},
    "line": LINE,
    "forest": FOREST,
    "few": FEW,
}
PLAN = samples.plan()
BOOSTED = ["lightgbm", "catboost"]


def train(models: Mapping[str, Any] = MODELS) -> tuple[core.TrainedModel, np.ndarray]:
    """A training's model, and the matrix of its training rows."""
    config = samples.config(dict(models))
    rows = TableRows(samples.setup(config), samples.features())
    return core.train(rows.setup, rows, "0.3.0"), rows.sample(PLAN.test).matrix


@pytest.fixture(scope="module")
def trained() -> tuple[core.TrainedModel, np.ndarray]:
    return train()


def numbers(seed: int, rows: int = 4000) -> tuple[np.ndarray, np.ndarray]:
    """Inputs, the last one missing in a third of the rows from seed 1 on only, and labels."""
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(rows, 5)).astype(np.float32)
    matrix[:, 2], matrix[:, 3] = rng.gamma(2, 50, rows).round(2), rng.integers(0, 3, rows)
    labels = (rng.random(rows) < 1 / (1 + np.exp(3 - matrix[:, 0] - matrix[:, 2] / 80))).astype(np.int8)
    holes = rng.random(matrix.shape) < 0.1
    holes[:, 4] &= seed > 0
    matrix[holes] = np.nan
    return matrix, labels


def extremes() -> np.ndarray:
    """Numbers at the ends of float32 and around zero, a quarter of them missing."""
    largest = np.finfo(np.float32).max
    values = [largest, -largest, 0.0, -0.0, 1e-45, -1e-45, 1e-35, -1e-35, 1e20, np.nan, np.nan, np.nan]
    return np.random.default_rng(0).choice(np.array(values, np.float32), (2000, 5))


@pytest.mark.parametrize("kind", BOOSTED)
def test_boosted_trees_score_as_their_library_does_whatever_is_missing_or_extreme(kind):
    spec = FitSpec("p", {"n_estimators": 20}, 0, 1, "cpu", nullable=True)
    fitted = estimators.fit(kind, spec, *numbers(0))
    rows = np.vstack([numbers(0)[0], numbers(1)[0], extremes()])

    scores = Graph(fitted.graph).score(rows)

    assert np.abs(scores - fitted.predict(rows)).max() < 1e-6
    assert scores.std() > 0.01
    assert estimators.fit(kind, spec, *numbers(0)).graph == fitted.graph


@pytest.mark.parametrize("kind", BOOSTED)
def test_trees_that_never_split_score_the_same_for_every_row(kind):
    matrix = np.stack([np.arange(40), np.zeros(40)], axis=1).astype(np.float32)
    labels = (np.arange(40) % 4 == 0).astype(np.int8)
    whole = {"min_child_samples": 1000} if kind == "lightgbm" else {"l2_leaf_reg": 1e9}
    fitted = estimators.fit(kind, FitSpec("p", {"n_estimators": 2, **whole}, 0, 1, "cpu"), matrix, labels)
    assert np.abs(Graph(fitted.graph).score(matrix) - fitted.predict(matrix)).max() < 1e-6


@pytest.mark.parametrize("kind", BOOSTED)
def test_the_validation_days_say_how_many_trees_there_are_and_the_last_fit_has_as_many(kind):
    parameters = {"n_estimators": 60, "learning_rate": 0.5, "early_stopping_rounds": 3}
    model = {"kind": kind, "parameters": parameters}
    config = samples.config({"trees": model})
    rows = TableRows(samples.setup(config), samples.features())

    trained = core.train(rows.setup, rows, "0.3.0")

    chosen = trained.package.candidates["trees"].choices["n_estimators"]
    assert 0 < chosen < 60
    sample = rows.sample(PLAN.test)
    same = FitSpec("p", {"n_estimators": int(chosen), "learning_rate": 0.5}, 0, config.task.threads, "cpu")
    assert estimators.fit(kind, same, sample.matrix, sample.labels).graph == trained.graphs["trees"]


def test_a_parameter_of_boosted_trees_is_refused_as_the_config_is_read():
    with pytest.raises(UserError, match=r"task\.candidates\.a\.parameters\.num_leafs: unknown.*'num_leaves'"):
        samples.config({"a": {"kind": "lightgbm", "parameters": {"num_leafs": 3}}})


def test_a_candidate_takes_the_inputs_that_it_names_and_the_manifest_has_them(trained):
    model, matrix = trained
    changed = matrix.copy()
    changed[:, 1:3] = 7.0  # `during_night` and `risk`

    same = Graph(model.graphs["few"])
    assert np.array_equal(same.score(changed), same.score(matrix))
    assert np.ptp(same.score(matrix)) > 0
    assert not np.array_equal(Graph(model.graphs["line"]).score(changed), Graph(model.graphs["line"]).score(matrix))
    assert model.package.candidates["few"].inputs == ["channel", "amount"]
    assert "inputs" not in json.loads(model.package.model_dump_json())["candidates"]["line"]


def test_an_input_that_is_none_is_refused_with_the_closest():
    says = r"task\.candidates\.few\.inputs\.amout: unknown; allowed here: amount, .*did you mean 'amount'\?"
    with pytest.raises(UserError, match=says):
        train({"few": FEW | {"inputs": ["amout"]}})


def test_an_ensemble_scores_the_mean_of_its_members_logits(trained):
    model, matrix = trained
    choices = model.package.candidates["blend"].choices
    shares = np.array([*choices.values()]) / sum(choices.values())
    apart = ensemble.average([Graph(model.graphs[name]).score(matrix) for name in choices], shares)

    assert [*choices] == ["line", "forest", "few"]
    assert model.package.dropped == {}
    assert np.abs(Graph(model.graphs["blend"]).score(matrix) - apart).max() < 1e-6


def test_the_weights_of_an_ensemble_follow_from_the_validation_days_alone():
    config = samples.config(MODELS)

    def choices(day: str) -> dict[str, float]:
        frame = samples.features()
        other = frame["event_time"].dt.strftime("%Y-%m-%d") == day
        frame.loc[other, "label"] = 1 - frame.loc[other, "label"]
        rows = TableRows(samples.setup(config), frame)
        sample = rows.sample(PLAN.validation)
        fits = core.fit_all(sample.prepare(rows.holdout(PLAN.validation, sample), {}), MODELS)
        return dict(fits.candidates["blend"].choices)

    validated = rows_of(samples.features(), PLAN.validation.test)["event_time"].dt.strftime("%Y-%m-%d")
    untouched = choices("2024-03-14")  # no day of the fold
    assert untouched == choices("never")
    assert untouched != choices(validated.iloc[0])


def test_weights_have_the_least_loss_of_all_shares():
    rng = np.random.default_rng(0)
    truth = rng.normal(size=2000)
    labels = (rng.random(2000) < 1 / (1 + np.exp(-truth))).astype(np.int8)
    members = np.stack([truth + rng.normal(size=2000), truth + 2 * rng.normal(size=2000)])

    def loss(share: float) -> float:
        mean = share * members[0] + (1 - share) * members[1]
        return float(np.mean(np.logaddexp(0, mean) - labels * mean))

    shares = ensemble.find_weights(members, labels)
    assert shares[0] == pytest.approx(min(np.linspace(0, 1, 1001), key=loss), abs=2e-3)
    assert shares.sum() == pytest.approx(1, abs=2e-3)


@pytest.mark.parametrize("name", ["few", "blend"])
def test_a_profile_fits_what_the_training_did(trained, name):
    model, matrix = trained
    rows = TableRows(samples.setup(samples.config(MODELS)), samples.features())
    sample = rows.sample(PLAN.test)
    package = ModelPackage.model_validate_json(model.package.model_dump_json(exclude_computed_fields=True))

    spec = _spec(sample.setup, package, name, matrix, sample.labels)

    assert estimators.fit(package.candidates[name].kind, spec, matrix, sample.labels).graph == model.graphs[name]


@pytest.mark.parametrize(
    ("candidate", "says"),
    [
        ({"kind": "ensemble", "members": ["line", "lin"]}, r"blend.members.lin: unknown; .*did you mean 'line'\?"),
        ({"kind": "ensemble", "members": ["line"]}, "an ensemble takes two or more different 'members'"),
        ({"kind": "ensemble", "members": ["line", "blend"]}, "blend.members.blend: unknown"),
        ({"kind": "xgboost", "members": ["line", "few"]}, "'members' belong to kind ensemble, not xgboost"),
    ],
)
def test_members_are_other_candidates_of_an_ensemble(candidate, says):
    with pytest.raises(UserError, match=says):
        parse(samples.settings({"line": LINE, "few": FEW, "blend": candidate}))
