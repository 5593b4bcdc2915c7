"""Choosing on the validation fold, fitting again, and what the model remembers of it."""

import dataclasses
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from components.training import core, section
from nightshift.config import parse
from nightshift.contracts.package import DecisionRule
from nightshift.data.splits import Days, rows_of
from nightshift.models.graph import Graph
from nightshift.runtime.errors import UserError
from nightshift.stats import ranking as metrics
from nightshift.tabular import inputs as tabular
from nightshift.tasks.tabular.training import TOLERANCE, TableRows, threshold
from tests.components.training import samples

PLAN = samples.plan()
LINE = {"line": samples.MODELS["line"]}


def rows(models: dict | None = None, frame: pd.DataFrame | None = None) -> TableRows:
    return TableRows(samples.setup(samples.config(models)), samples.features() if frame is None else frame)


def train(models: dict | None = None, frame: pd.DataFrame | None = None) -> core.TrainedModel:
    table = rows(models, frame)
    return core.train(table.setup, table, "0.3.0")


def validate(models: dict, frame: pd.DataFrame) -> core.Validation:
    return core.validate(samples.config(models), PLAN.validation, rows(models, frame))


def measured(**precisions: float) -> dict[str, metrics.RankingMetrics]:
    base: metrics.RankingMetrics = {
        "auc_roc": 0.5,
        "average_precision": 0.0,
        "precision_at_k": 0.1,
        "precision_at_k_ceiling": 0.2,
    }
    return {name: {**base, "average_precision": value} for name, value in precisions.items()}


@pytest.fixture(scope="module")
def trained() -> core.TrainedModel:
    return train()


@pytest.mark.parametrize(
    ("values", "metric", "is_less_better", "reason"),
    [
        pytest.param(
            measured(a=0.1, b=0.3, c=0.2),
            "average_precision",
            False,
            "b has the highest average precision on the validation days 2024-03-15 .. 2024-03-16: "
            "b 0.3000, c 0.2000, a 0.1000",
            id="the best",
        ),
        pytest.param(
            measured(a=0.1, b=0.3) | {"c": {**measured(c=0.2)["c"], "precision_at_k": 0.9}},
            "precision_at_k",
            False,
            "c has the highest",
            id="by the metric of the config",
        ),
        pytest.param(measured(b=0.3, a=0.3), "average_precision", False, "b has", id="of equals the config's first"),
        pytest.param(measured(a=0.1, b=0.3), "average_precision", True, "a has the lowest", id="of errors the lowest"),
    ],
)
def test_a_candidate_is_selected_for_a_reason_that_tells_all(values, metric, is_less_better, reason):
    name, text = core.select(values, metric, PLAN.validation.test, is_less_better=is_less_better)

    assert text.startswith(reason)
    assert name == reason[0]


def test_as_many_validation_rows_as_can_be_checked_reach_the_threshold():
    scores = np.array([0.1, 0.9, 0.5, 0.7], dtype=np.float32)

    assert (scores >= threshold(scores, 3)).sum() == 3
    assert threshold(scores, 100) == np.float32(0.1)


def test_a_model_is_chosen_on_rows_it_was_not_fitted_on():
    frame = samples.features()
    choice = validate(LINE, frame)

    sample, unseen = rows(LINE, frame).sample(PLAN.validation), rows_of(frame, PLAN.validation.test)
    graph = core.fit_all(sample, LINE).candidates["line"].graph
    scores = Graph(graph).score(tabular.matrix(sample.inputs, unseen))
    assert choice.measured["line"].metrics == metrics.evaluate(unseen, scores, 5)
    assert (scores >= choice.measured["line"].decision.threshold).sum() == 5 * 2  # top_k on each of two days
    assert (str(choice.window.first), str(choice.window.last)) == ("2024-03-15", "2024-03-16")
    assert (choice.window.rows, choice.window.positives) == (300, unseen["label"].sum())


@pytest.mark.parametrize("closed", ["2024-03-15", "2024-03-16"])
def test_the_threshold_counts_open_days_only(closed):
    frame = samples.features()
    frame = frame[frame["event_time"].dt.strftime("%Y-%m-%d") != closed]
    choice = validate(LINE, frame)

    sample, unseen = rows(LINE, frame).sample(PLAN.validation), rows_of(frame, PLAN.validation.test)
    scores = Graph(core.fit_all(sample, LINE).candidates["line"].graph).score(tabular.matrix(sample.inputs, unseen))
    assert (scores >= choice.measured["line"].decision.threshold).sum() == 5  # top_k on the day that has rows
    assert (choice.window.rows, choice.window.open_days) == (150, 1)


def test_customers_known_as_compromised_do_not_count_in_the_choice():
    frame = samples.features()
    fraud = rows_of(frame, PLAN.validation.train).query("label == 1").iloc[0]
    again = rows_of(frame, PLAN.validation.test).index[:7]
    frame.loc[again, "customer"] = fraud["customer"]

    assert validate(LINE, frame).window.rows == 300 - 7


def test_the_model_is_fitted_again_on_the_days_before_the_test(trained):
    expected = core.fit_all(rows().sample(PLAN.test), samples.MODELS).candidates

    assert trained.graphs == {name: candidate.graph for name, candidate in expected.items()}


def test_the_categories_are_those_of_the_training_days():
    frame = samples.features()
    frame.loc[frame["event_time"] < "2024-03-15", "channel"] = "phone"

    assert train(LINE, frame).package.preprocessing.categorical == {"channel": ["shop", "web"]}


@pytest.mark.slow
def test_constant_columns_are_trained_on_and_named(caplog):
    frame = samples.features().assign(risk=0.1, channel="web")
    trained = train(frame=frame)

    assert trained.package.lineage.constant == ["risk", "channel"]
    assert np.isfinite(trained.reference["score"]).all()
    assert "nothing is learned from: risk, channel" in caplog.text


def test_the_package_says_what_it_was_trained_and_chosen_on(trained):
    frame = rows_of(samples.features(), PLAN.test.train)
    lineage = trained.package.lineage

    assert (str(lineage.train.first), str(lineage.train.last)) == ("2024-03-15", "2024-03-16")
    assert (lineage.train.rows, lineage.train.positives) == (300, frame["label"].sum())
    assert str(lineage.validation.first) == "2024-03-15"
    assert (lineage.device, lineage.seed, lineage.selected_by) == ("cpu", 0, "average_precision")
    assert (lineage.events_sha256, lineage.code_version) == ("e", "0.3.0")
    assert lineage.features_sha256 == samples.setup(samples.config()).features.sha256
    assert lineage.reason.startswith(f"{trained.package.selected} has the highest average precision")
    net = trained.package.candidates["net"]
    assert (net.file, net.kind, net.parameters) == ("net.onnx", "mlp", samples.MODELS["net"]["parameters"])
    assert net.seconds > 0


def test_the_report_charts_the_validation_loss_beside_the_training_loss_where_rows_were_held_out():
    parameters = samples.MODELS["net"]["parameters"]
    nets = {"held": parameters | {"validation": 0.2, "validations": 5}, "whole": parameters}
    package = train({name: {"kind": "mlp", "parameters": fields} for name, fields in nets.items()}).package

    (chart,) = (block for block in section.build(package, []).blocks if block.kind == "chart")

    assert chart.title == "Training and validation loss"
    assert [series.name for series in chart.series] == ["held", "held, validation", "whole"]
    held_out = package.candidates["held"].validation_losses
    assert chart.series[1].points == held_out
    assert len(held_out) == 5
    assert "validation_losses" not in package.candidates["whole"].model_dump()


def test_a_package_tells_a_server_what_it_takes_and_how_that_is_computed(trained):
    package = trained.package

    assert package.signature.inputs[0].shape == [-1, 5]  # three numbers, two channels
    spec = package.preprocessing.features
    assert (spec.calendar, spec.has_amount, spec.amount_decimals) == (["is_weekend", "is_night"], True, 2)
    assert (spec.label_delay_days, spec.timezone, spec.longest_days) == (1, "UTC", 30)
    assert [feature.name for feature in spec.features][:2] == ["customer_count_1d", "customer_mean_amount_1d"]
    assert {file.format for file in package.files} == {"onnx"}


@pytest.mark.slow
def test_training_twice_gives_the_same_bytes_and_identity(trained):
    again = train()

    assert again.graphs == trained.graphs
    assert again.package.sha256 == trained.package.sha256
    pd.testing.assert_frame_equal(again.reference, trained.reference)


def test_the_reference_holds_training_rows_with_the_scores_of_the_selected_model(trained):
    inputs = trained.package.preprocessing
    reference = trained.reference

    blocks = ["block of day", "block of customer", "block of terminal"]
    assert list(reference.columns) == [*samples.NUMERIC, "channel", "label", "score", *blocks]
    assert len(reference) == 300
    scores = Graph(trained.graphs[trained.package.selected]).score(tabular.matrix(inputs, reference))
    assert np.array_equal(reference["score"], scores)


def test_a_large_reference_is_a_sample_in_the_order_of_the_rows():
    frame = samples.features(rows_a_day=6000).assign(amount=lambda frame: np.arange(len(frame), dtype=float))

    def drawn(seed: int) -> pd.DataFrame:
        config = samples.config(LINE)
        config = config.model_copy(update={"task": config.task.model_copy(update={"seed": seed})})
        table = TableRows(samples.setup(config, ["amount"], []), frame)
        sample = table.sample(PLAN.test)
        return table.reference(sample, sample.fit("line").graph, DecisionRule(threshold=0.5))[0]

    samples_drawn = [drawn(seed) for seed in (0, 0, 1)]

    assert [len(sample) for sample in samples_drawn] == [10_000] * 3
    assert samples_drawn[0]["amount"].is_monotonic_increasing
    assert samples_drawn[0]["amount"].is_unique
    assert samples_drawn[0].equals(samples_drawn[1])
    assert not samples_drawn[0].equals(samples_drawn[2])


@pytest.mark.parametrize(("label", "positives"), [(0, "0 positives"), (1, "300 positives")])
@pytest.mark.parametrize("days", [PLAN.validation.train, PLAN.validation.test], ids=["train", "test"])
def test_days_without_fraud_or_with_nothing_else_are_named(days, label, positives):
    frame = samples.features()
    frame.loc[rows_of(frame, days).index, "label"] = label
    other = Days(days.first, days.last)

    with pytest.raises(UserError, match=f"{other}: {positives} in 300 rows.*widen protocol.train_days"):
        train(LINE, frame)


def test_a_label_that_is_not_there_although_it_is_due_is_the_users_to_bring():
    frame = samples.features()
    frame.loc[3, "label"] = pd.NA

    with pytest.raises(UserError, match="1 rows have no label although it is due; bring the labels"):
        train(LINE, frame)


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize(
    ("value", "complaint"), [(np.nan, "is missing in some rows"), (1e300, "is beyond the range of float32")]
)
def test_an_input_that_is_no_finite_float32_is_named(value, complaint):
    frame = samples.features()
    frame.loc[3, "risk"] = value

    with pytest.raises(UserError, match=f"input 'risk' {complaint}"):
        train(LINE, frame)


NAMES = ["amount", "age", "km"]


def settings_of(nullable: set[str]) -> dict:
    columns = samples.settings()["columns"] | {"numeric": ["age", "km"]}
    return samples.settings(samples.MODELS) | {"columns": columns, "limits": {"nullable": sorted(nullable)}}


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(
    nullable=st.sets(st.sampled_from(["age", "km"])),
    lacking=st.dictionaries(st.sampled_from(NAMES), st.sampled_from([0.05, 1.0])),
    seed=st.integers(0, 9),
)
def test_a_missing_number_is_refused_by_name_or_trained_on_and_no_metric_is_nan(nullable, lacking, seed):
    frame, rng = samples.features().rename(columns={"is_night": "age", "risk": "km"}), np.random.default_rng(seed)
    for name, share in lacking.items():
        frame.loc[rng.random(len(frame)) < share, name] = np.nan
    table = TableRows(samples.setup(parse(settings_of(nullable)), numeric=NAMES), frame)
    missing = [name for name in NAMES if name not in nullable and frame[name].isna().any()]

    if missing:
        with pytest.raises(UserError, match=f"input '{missing[0]}' is missing in some rows"):
            core.train(table.setup, table, "0.3.0")
        return
    trained = core.train(table.setup, table, "0.3.0")
    assert trained.package.inputs.nullable == sorted(nullable)
    assert (trained.package.lineage.constant, trained.package.dropped) == (
        [name for name in NAMES if lacking.get(name) == 1.0],
        {},
    )
    for candidate in trained.package.candidates.values():
        assert np.isfinite([*candidate.validation.values()]).all()


def test_a_graph_that_scores_differently_from_its_library_for_a_single_positive_is_noticed():
    sample = rows(LINE, samples.features(rows_a_day=4500)).sample(PLAN.test)
    fitted = sample.fit("line")
    largest = sample.matrix[sample.labels == 1][:500, 0].max()
    off = dataclasses.replace(fitted, predict=lambda rows: fitted.predict(rows) + 1e-3 * (rows[:, 0] == largest))

    assert sample.export_error(fitted) < TOLERANCE
    assert sample.export_error(off) == pytest.approx(1e-3, rel=0.01)


@pytest.mark.slow
def test_a_candidate_that_onnx_does_not_give_right_is_left_out_with_a_reason(caplog):
    sample = rows().sample(PLAN.test)
    gaps = {name: sample.export_error(sample.fit(name)) for name in samples.MODELS}
    # amid the widest space: threads add the trees of a forest up in any order, so its last bits change
    ordered = sorted(gaps.values())
    lower, upper = max(pairwise(ordered), key=lambda pair: pair[1] - pair[0])
    assert lower < upper
    limit = (lower + upper) / 2

    fits = core.fit_all(dataclasses.replace(sample, tolerance=limit), samples.MODELS)

    assert set(fits.dropped) == {name for name in gaps if gaps[name] > limit}
    assert set(fits.candidates) == {name for name in gaps if gaps[name] < limit}
    for name, reason in fits.dropped.items():
        assert reason.startswith("Its ONNX graph scores up to ")
        assert f"{name} is left out: {reason}" in caplog.text


def test_a_training_without_a_candidate_left_is_the_users_to_change():
    with pytest.raises(UserError, match=r"task\.candidates: none is left \(boosted: Its ONNX graph scores up to"):
        core.fit_all(dataclasses.replace(rows().sample(PLAN.test), tolerance=-1.0), samples.MODELS)


@pytest.mark.parametrize(
    ("gap", "reason"),
    [(float("nan"), "Its training diverged: its scores are not numbers"), (0.1, "scores up to 0.1 off")],
)
def test_a_candidate_that_is_dropped_says_why(gap, reason):
    fits = core.Fits({}, {})
    core.keep_or_drop(fits, "net", core.FittedCandidate(b"", 1.0), gap, 1e-4)
    assert reason in fits.dropped["net"]


@pytest.mark.parametrize(
    ("kind", "parameters", "says"),
    [
        ("mlp", {"hiden": 8}, "task.candidates.last.parameters.hiden: unknown"),
        ("mlp", {"epochs": 0}, "task.candidates.last.parameters.epochs: "),
        ("xgboost", {"max_dept": 3}, "task.candidates.last.parameters.max_dept: unknown"),
        ("xgboost", {"tree_method": "best"}, "task.candidates.last.parameters: XGBClassifier refuses them"),
        ("random_forest", {"max_features": "many"}, "task.candidates.last.parameters: RandomForestClassifier refuses"),
        ("random_forest", {"n_estimators": "ten"}, "task.candidates.last.parameters: RandomForestClassifier refuses"),
        ("logistic_regression", {"solver": "none"}, "task.candidates.last.parameters: LogisticRegression refuses them"),
    ],
)
def test_what_the_last_candidate_refuses_is_said_before_the_first_is_fitted(kind, parameters, says, caplog):
    caplog.set_level("INFO", "nightshift")
    models = LINE | {"last": {"kind": kind, "parameters": parameters}}

    with pytest.raises(UserError, match=f"^{says}"):
        train(models)

    assert not caplog.messages


def test_days_that_cannot_train_the_final_model_are_named_before_anything_is_fitted(caplog):
    caplog.set_level("INFO", "nightshift")
    frame = samples.features()
    last = frame["event_time"].dt.date == PLAN.test.train.last
    frame.loc[last & (frame.index == frame.index[last][0]), "label"] = None

    with pytest.raises(UserError, match=f"^{PLAN.test.train}: 1 rows have no label"):
        train(LINE, frame)

    assert not caplog.messages
