"""A night of a table of numbers: features, candidates, prediction intervals, the gate, scores and drift."""

from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor

from nightshift.contracts import tables
from nightshift.contracts.evaluation import NumberEvaluation
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.tables import Table
from nightshift.contracts.verdict import Decision
from nightshift.data import splits
from nightshift.models.graph import Graph
from nightshift.runtime.errors import UserError
from nightshift.tabular.inputs import FrameScorer, matrix
from nightshift.tasks.base.drift import DriftInputs
from nightshift.tasks.regression.drift import DriftTask
from nightshift.tasks.regression.optimization import OptimizationTask
from nightshift.tasks.regression.release import ReleaseTask
from nightshift.tasks.regression.training import NumberRows
from nightshift.tasks.tabular.examples import ExamplesTask
from nightshift.tasks.tabular.scoring import ScoringTask
from tests.nightshift.tasks.regression.demand import CANDIDATES, DATE, Demand, config


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Demand:
    return Demand(config(), tmp_path_factory.mktemp("demand"))


def figures(night: Demand) -> NumberEvaluation:
    assert isinstance(night.report.figures, NumberEvaluation)
    return night.report.figures


def test_a_mean_is_of_the_labels_of_the_series_that_are_known_when_the_day_begins(night: Demand) -> None:
    day = DATE - timedelta(days=3)
    last = day - timedelta(days=night.config.label_delay_days + 1)
    known = night.events.read([last - timedelta(days=number) for number in range(7)])

    rows = night.read(day).set_index(["shop", "product"])

    means = known.groupby(["shop", "product"])["label"].mean().astype(float)
    pd.testing.assert_series_equal(rows["label_mean_7d"], means, check_names=False)
    newest = known[known["event_time"].dt.date == last].set_index(["shop", "product"])["label"]
    pd.testing.assert_series_equal(rows["label_last"], newest.astype(float), check_names=False)


def test_a_series_without_a_past_has_the_mean_of_all(tmp_path: Path, night: Demand) -> None:
    day = DATE - timedelta(days=1)
    events = night.events.read([day]).assign(shop=99)
    replaced = tables.write_partition(str(tmp_path / "new.parquet"), day, events, {})
    parts = [replaced if part.date == str(day) else part for part in night.events.partitions]
    features = Demand(night.config, tmp_path)
    object.__setattr__(features, "events", Table("events", parts))

    rows = features.read(day)

    assert set(rows["label_last"]) == {rows["label_last"].iloc[0]}
    assert rows["label_last"].iloc[0] == pytest.approx(night.read(day)["label_mean_28d"].mean(), rel=0.01)


def test_the_candidate_with_the_least_error_is_selected_and_beats_both_naive_forecasts(night: Demand) -> None:
    measures = {measure.name: measure for measure in night.report.verdict.measures}
    gains = [measures["mae_gain_over_last_value"], measures["mae_gain_over_mean_of_28_days"]]

    assert night.model.lineage.reason.startswith("xgboost has the lowest mae")
    assert night.report.verdict.decision is Decision.PASS
    assert all(gain.interval and gain.interval[0] > 0 for gain in gains)
    assert set(figures(night).naive) == {"last value", "mean of 28 days"}


def test_a_model_that_is_no_better_than_a_naive_forecast_is_refused(tmp_path: Path) -> None:
    stiff = {"stiff": {"kind": "ridge", "parameters": {"alpha": 1e9}}}
    report = Demand(config(stiff), tmp_path).report

    assert report.verdict.decision is Decision.FAIL
    assert "is not lower than that of the naive forecast, the mean of 28 days" in " ".join(report.verdict.reasons)


def test_a_model_that_is_told_the_label_is_refused_as_a_leak(tmp_path: Path, night: Demand) -> None:
    leaky = Demand(config(), tmp_path)
    parts = [
        tables.write_partition(
            str(tmp_path / f"{part.date}.parquet"),
            date.fromisoformat(part.date),
            night.read(date.fromisoformat(part.date)).assign(price=lambda rows: rows["label"].astype(float)),
            {},
        )
        for part in night.features.partitions
    ]
    object.__setattr__(leaky, "features", Table("features", parts, night.features.details))

    assert leaky.report.verdict.decision is Decision.FAIL
    assert "taken for leakage" in " ".join(leaky.report.verdict.reasons)


def test_intervals_calibrated_on_validation_days_cover_what_they_promise_of_later_days(night: Demand) -> None:
    assert figures(night).coverage_promised == 0.9
    assert 0.88 <= figures(night).coverage.value <= 0.92
    assert len(figures(night).days) == 14
    assert {part.name.split("=")[0] for part in figures(night).slices} == {"day_of_week", "location"}


def test_errors_are_those_of_scikit_learns_boosting_on_the_same_days(night: Demand) -> None:
    sample, tested = NumberRows(night.setup).sample(night.setup.plan.test), night.tested.rows
    theirs = HistGradientBoostingRegressor(loss="poisson", random_state=0).fit(sample.matrix, sample.labels)

    error = np.abs(theirs.predict(matrix(night.model.inputs, tested)) - tested["label"].astype(float)).mean()

    assert figures(night).models["xgboost"]["mae"] == pytest.approx(error, rel=0.05)


def test_a_row_costs_what_the_config_says_of_a_unit_too_many_and_one_too_few(night: Demand) -> None:
    scores = night.tested.scores(night.uri, night.model, "xgboost").astype(float)
    off = scores - night.tested.rows["label"].to_numpy(float)

    expected = np.where(off > 0, 1.5 * off, -4 * off).mean()

    assert figures(night).models["xgboost"]["cost"] == pytest.approx(expected)
    assert "1.5 for each unit too high and 4 for each too low" in night.report.card


def scored(night: Demand, day: date) -> pd.DataFrame:
    return pd.concat(ScoringTask().scorer(night.uri, night.model).batches(night.features, day))


def test_a_days_scores_carry_the_ends_of_their_intervals(night: Demand) -> None:
    rows = scored(night, DATE)

    assert list(rows.columns) == ["event_id", "event_time", "score", "low", "high"]
    assert (rows["low"] < rows["score"]).all() and (rows["score"] < rows["high"]).all()


def test_a_manifest_keeps_its_interval_and_is_read_again(night: Demand) -> None:
    again = ModelPackage.read(f"{night.uri}/model.json")

    assert again.decision == night.model.decision
    assert again.decision.interval and len(again.decision.interval.below) == len(again.decision.interval.edges) + 1
    assert again.kind == "tabular-regression"


def test_a_request_is_made_of_a_real_row_and_scored_as_the_night_scores_it(night: Demand) -> None:
    example = ExamplesTask().from_files(night.uri, night.model, None)

    (score,) = FrameScorer(night.uri, night.model).score(pd.DataFrame([example.request["instances"][0]]))
    assert score == pytest.approx(example.score)


def test_versions_are_compared_by_errors_without_a_unit(night: Demand) -> None:
    day = DATE - timedelta(days=2)
    (losses,) = ReleaseTask().losses(night.features, day, [night.uri])

    assert len(losses) == 200
    assert 0 < losses.mean() < 1  # of a naive forecast's error
    assert list(ReleaseTask().slices(night.features, day, ["location"]).columns) == ["location"]


def test_a_form_of_the_graph_is_judged_by_the_errors_of_the_validation_days(night: Demand) -> None:
    _, rows = OptimizationTask().read_samples(night.config, night.features, night.uri, night.model, 0.01)
    scores = np.asarray(rows.labels, np.float32)

    assert rows.quality(scores) == 0
    assert rows.quality(scores + 1) < rows.resample(scores).max()


def drift(night: Demand, factor: float) -> dict[str, Any]:
    """The signals of labels that are a multiple of what they were."""
    days = splits.monitoring_window(night.config, DATE, night.model.lineage.train.last)
    promised = {"metric": "mae", "value": figures(night).models["xgboost"]["mae"], "measured": "when it was evaluated"}
    parts, changed = [], []
    for day in days:
        folder = night.folder / f"drift-{factor}"
        parts.append(tables.write_partition(f"{folder}/scores-{day}.parquet", day, scored(night, day), {}))
        rows = night.read(day).assign(label=lambda rows: rows["label"].astype(float) * factor)
        changed.append(tables.write_partition(f"{folder}/features-{day}.parquet", day, rows, {}))
    scores, features = Table("scores", parts, {"promised": promised}), Table("features", changed)
    reference = pd.read_parquet(f"{night.uri}/reference.parquet")
    inputs = DriftInputs(night.config, DATE, features, scores, night.uri, night.model, reference)
    return {signal.name: signal for signal in DriftTask().comparison(inputs).labeled_signals()}


def test_labels_as_they_were_raise_nothing(night: Demand) -> None:
    signals = drift(night, 1.0)

    assert [*signals] == ["performance", "residuals", "coverage"]
    assert not any(signal.raised for signal in signals.values())


def test_labels_that_grow_by_half_raise_error_residuals_and_coverage(night: Demand) -> None:
    signals = drift(night, 1.5)

    assert all(signal.raised for signal in signals.values())
    assert "too low on the whole" in signals["residuals"].reason


@pytest.mark.parametrize(
    "candidate",
    [
        *({"kind": "xgboost", "parameters": {"objective": objective, "n_estimators": 20, "tree_method": "hist"}}
          for objective in ("reg:squarederror", "reg:absoluteerror", "reg:quantileerror", "count:poisson",
                            "reg:tweedie")),
        {"kind": "poisson"},
        {"kind": "tweedie", "parameters": {"power": 1.5}},
        {"kind": "random_forest", "parameters": {"n_estimators": 10, "max_depth": 6}},
        {"kind": "mlp", "parameters": {"max_iter": 20, "early_stopping": False}},
    ],
    ids=lambda candidate: str(candidate.get("parameters", {}).get("objective", candidate["kind"])),
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_the_graph_of_a_candidate_scores_what_its_library_does(night: Demand, candidate: dict[str, Any]) -> None:
    setup = replace(night.setup, config=config({"one": candidate}))
    sample = NumberRows(setup).sample(setup.plan.validation)

    fitted = sample.fit("one")

    assert sample.export_error(fitted) <= sample.tolerance
    error = np.abs(Graph(fitted.graph).score(sample.matrix) - sample.labels).mean()
    assert error < np.abs(sample.labels - np.median(sample.labels)).mean() * 0.7


def test_a_quantile_is_as_high_as_the_config_says(night: Demand) -> None:
    candidate = {"kind": "xgboost", "parameters": {"objective": "reg:quantileerror", "tree_method": "hist"}}
    changed = config({"one": candidate})
    task = changed.task.model_copy(update={"quantile": 0.8})
    setup = replace(night.setup, config=changed.model_copy(update={"task": task}))
    sample = NumberRows(setup).sample(setup.plan.test)

    scores = Graph(sample.fit("one").graph).score(sample.matrix)

    assert (sample.labels <= scores).mean() == pytest.approx(0.8, abs=0.05)


@pytest.mark.parametrize(
    ("candidate", "expected"),
    [
        (
            {"kind": "poisson"},
            "task.candidates.one: kind poisson takes labels from 0, and the lowest is -5; write objective: "
            "reg:squarederror of kind xgboost, or kind: ridge",
        ),
        (
            {"kind": "xgboost", "parameters": {"objective": "count:poisson"}},
            "task.candidates.one.parameters.objective: count:poisson takes labels from 0, and the lowest is -5",
        ),
        (
            {"kind": "xgboost", "parameters": {"objective": "binary:logistic"}},
            "task.candidates.one.parameters.objective: is 'binary:logistic'; allowed: reg:squarederror, reg:absolut",
        ),
        (
            {"kind": "ridge", "parameters": {"alhpa": 1.0}},
            "task.candidates.one.parameters.alhpa: unknown; allowed here: alpha,",
        ),
        ({"kind": "mlp", "parameters": {"activation": "tanh"}}, "task.candidates.one.parameters.activation: unknown"),
    ],
)
def test_what_a_candidate_cannot_do_is_refused_before_hours_of_work(
    night: Demand, candidate: dict[str, Any], expected: str
) -> None:
    setup = replace(night.setup, config=config({"one": candidate}))
    sample = NumberRows(setup).sample(setup.plan.validation)
    negative = sample.rows.assign(label=sample.rows["label"].mask(sample.rows.index == sample.rows.index[-1], -5))

    with pytest.raises(UserError) as caught:
        replace(sample, rows=negative).check()

    assert str(caught.value).startswith(expected)


def test_labels_that_do_not_differ_train_nothing(night: Demand) -> None:
    parts = [
        tables.write_partition(
            str(night.folder / "constant" / f"{part.date}.parquet"),
            date.fromisoformat(part.date),
            night.read(date.fromisoformat(part.date)).assign(label=4.0),
            {},
        )
        for part in night.features.partitions
    ]
    setup = replace(night.setup, features=Table("features", parts, night.features.details))

    with pytest.raises(UserError, match="whose labels do not differ"):
        NumberRows(setup).sample(setup.plan.test)


def test_the_shipped_candidates_are_those_that_the_world_is_tried_with() -> None:
    assert CANDIDATES.keys() <= config().task.candidates.keys()
