"""The gate and the curves."""

from dataclasses import replace
from datetime import date

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import precision_recall_curve

from nightshift.config.tabular import TabularEvaluationGate
from nightshift.contracts.evaluation import DecisionCost, PrecisionRecall
from nightshift.contracts.preprocessing import Inputs
from nightshift.contracts.verdict import Opponent
from nightshift.data.splits import Days
from nightshift.runtime.errors import UserError
from nightshift.stats.comparison import BootstrapEstimate
from nightshift.stats.ranking import RankingMetrics
from nightshift.tasks.named_inputs import MeasuredRows
from nightshift.tasks.tabular import judging
from nightshift_testkit import packages
from tests.components.training.samples import config

GATE = TabularEvaluationGate(top_k=20)
OLD, NEW = "2024-03-01", "2024-03-02"
NONE_YET = "There was no champion to compare with."


def measured(average_precision: float | None) -> RankingMetrics:
    return {
        "auc_roc": 0.8,
        "average_precision": average_precision,
        "precision_at_k": 0.2,
        "precision_at_k_ceiling": 0.4,
    }


def contender(
    average_precision: float | None, spread: float = 0.0, until: str = OLD, sha256: str = "new"
) -> judging.RowContender:
    """A model whose resampled average precision lies evenly within its value +- spread."""
    resamples = {"precision_at_k": np.full(101, 0.2), "cost": np.full(101, 150.0)}
    if average_precision is not None:
        resamples["average_precision"] = np.linspace(average_precision - spread, average_precision + spread, 101)
    cost = DecisionCost(per_1000=150.0, threshold=0.5, alerts=10, missed_positives=3)
    metrics = measured(average_precision)
    return judging.RowContender(sha256=sha256, trained_until=until, metrics=metrics, cost=cost, resamples=resamples)


def reigning(model: judging.RowContender) -> judging.RowContender:
    return replace(model, version=7)


def window(seed: int, rows: int = 6000, positives: int = 200) -> pd.DataFrame:
    """Two labeled days with a hidden `signal` that tells positives apart only so well."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"event_time": pd.Timestamp("2024-03-18") + pd.to_timedelta(np.arange(rows) * 28, unit="s")})
    frame["customer"] = rng.integers(0, rows // 10, rows)
    frame["label"] = pd.array(rng.permutation(rows) < positives, dtype="boolean").astype("Int8")
    frame["amount"] = rng.gamma(2, 30, rows)
    frame["signal"] = rng.normal(frame["label"].to_numpy(dtype=float) * 3, 1)
    return frame


def scorer(rows: pd.DataFrame, noise: float, seed: int, until: str) -> judging.RowContender:
    """A model, named by its seed, that sees the signal through some noise."""
    rng = np.random.default_rng(seed)
    scores = 1 / (1 + np.exp(-(rows["signal"] - 3 + noise * rng.normal(size=len(rows))))).to_numpy()
    made_from = packages.lineage(train=packages.DAYS.model_copy(update={"last": until}))
    model = packages.manifest({"only": str(seed).encode()}, made_from=made_from)
    return judging.measure(rows, scores, model, GATE)


@pytest.mark.parametrize(
    ("average_precision", "positives", "decision", "says"),
    [
        (0.60, 49, "undecided", "hold 49 positives; at least 50 are needed to decide"),
        (0.60, 50, "pass", "average precision 0.600 [0.600, 0.600] on 50 positives"),
        (0.29, 50, "fail", "Average precision 0.290 is below the floor 0.3."),
        (0.30, 500, "pass", "average precision 0.300"),
        (0.99, 500, "pass", "average precision 0.990"),
        (0.995, 500, "fail", "0.995 is above 0.99: too good to be true"),
        (None, 500, "undecided", "The test days hold one class only, so average precision has no meaning."),
    ],
)
def test_a_challenger_without_a_champion_is_promoted_when_the_floors_hold(
    average_precision: float | None, positives: int, decision: str, says: str
) -> None:
    verdict = judging.judge(contender(average_precision), NONE_YET, positives, GATE)

    assert verdict.decision == decision
    assert verdict.reasons[0] == NONE_YET
    assert says in verdict.reasons[-1]


@pytest.mark.parametrize(
    ("gain", "spread", "until", "decision", "says"),
    [
        (0.05, 0.02, OLD, "pass", "It is better beyond noise."),
        (0.05, 0.02, NEW, "pass", "It is better beyond noise."),
        (0.01, 0.02, OLD, "fail", f"not better beyond noise, and not fresher: trained until {OLD}"),
        (0.01, 0.02, NEW, "pass", f"not worse by more than 0.02, and fresher: trained until {NEW}"),
        (0.0, 0.0, OLD, "fail", "not fresher"),
        (0.0, 0.0, NEW, "pass", "fresher"),
        (0.01, 0.04, NEW, "fail", "may be worse by more than 0.02"),
        (-0.01, 0.005, NEW, "fail", "It is worse beyond noise, if by less than 0.02."),
        (-0.004, 0.005, NEW, "pass", "fresher"),
        (-0.05, 0.01, NEW, "fail", "may be worse by more than 0.02"),
        (-0.35, 0.0, NEW, "fail", "below the floor"),
    ],
)
def test_a_challenger_wins_when_better_beyond_noise_or_not_worse_and_fresher(
    gain: float, spread: float, until: str, decision: str, says: str
) -> None:
    champion = reigning(contender(0.6, until=OLD, sha256="old"))

    verdict = judging.judge(contender(0.6 + gain, spread, until), champion, 100, GATE)

    assert verdict.decision == decision
    assert says in " ".join(verdict.reasons)


def test_the_reasons_and_measures_carry_the_figures_with_their_limits_and_intervals() -> None:
    champion = reigning(contender(0.6, sha256="old"))

    verdict = judging.judge(contender(0.7, 0.1), champion, 100, GATE)

    assert verdict.reasons[0] == (
        "The challenger's average precision is 0.700 [0.605, 0.795], that of champion version 7 0.600 [0.600, 0.600] "
        "on the same rows, the gain 0.100 [0.005, 0.195] (95 % intervals)."
    )
    assert verdict.reasons[-1] == (
        "Precision at 20 changes by 0.000 [0.000, 0.000], cost per 1,000 events by 0.000 [0.000, 0.000]."
    )
    measures = {measure.name: measure for measure in verdict.measures}
    assert (measures["positives"].value, measures["positives"].limit) == (100, 50)
    precision, gain = measures["average_precision"], measures["average_precision_gain"]
    assert (precision.value, precision.limit, precision.interval) == (0.7, 0.3, pytest.approx((0.605, 0.795)))
    assert (gain.value, gain.limit) == (pytest.approx(0.1), -0.02)
    assert gain.interval == pytest.approx((0.005, 0.195))
    assert not measures["cost_per_1000"].higher_is_better
    assert (verdict.subject, verdict.compared_with) == ("new", Opponent(version=7, sha256="old"))


@pytest.mark.parametrize("until", [OLD, NEW])
@pytest.mark.parametrize("seed", range(3))
def test_a_model_that_sees_more_wins_and_one_that_sees_less_loses(seed: int, until: str) -> None:
    rows = window(seed)
    sharp, blurred = scorer(rows, 0.2, 1, until), scorer(rows, 1.5, 2, until)

    assert judging.judge(sharp, reigning(blurred), 200, GATE).decision == "pass"
    assert judging.judge(blurred, reigning(sharp), 200, GATE).decision == "fail"


def test_ten_equals_in_a_row_of_the_same_days_never_replace_the_champion() -> None:
    rows = window(0)
    champion = reigning(scorer(rows, 0.1, 0, OLD))

    decisions = [judging.judge(scorer(rows, 0.1, seed, OLD), champion, 200, GATE).decision for seed in range(1, 11)]

    assert decisions == ["fail"] * 10


def test_an_equal_of_newer_days_replaces_the_champion_once_and_not_back() -> None:
    rows = window(0)
    older, newer = scorer(rows, 0.02, 1, OLD), scorer(rows, 0.02, 2, NEW)

    assert judging.judge(newer, reigning(older), 200, GATE).decision == "pass"
    assert judging.judge(older, reigning(newer), 200, GATE).decision == "fail"


def test_a_model_that_has_seen_the_labels_is_refused_although_it_is_better_than_the_champion() -> None:
    rows = window(0)
    leaked = rows.assign(signal=6.0 * rows["label"].astype(float))

    verdict = judging.judge(scorer(leaked, 0.5, 1, NEW), reigning(scorer(rows, 0.1, 2, OLD)), 200, GATE)

    assert verdict.decision == "fail"
    assert "too good to be true, a feature probably leaks the label" in verdict.reasons[0]


def test_a_challenger_identical_to_the_champion_changes_nothing() -> None:
    verdict = judging.judge(contender(0.6, until=NEW), reigning(contender(0.6)), 100, GATE)

    assert verdict.decision == "undecided"
    assert verdict.reasons == ["The challenger is identical to champion version 7."]


def test_a_window_without_frauds_is_measured_as_far_as_it_goes_and_refused() -> None:
    rows = window(0, positives=0)

    measured = scorer(rows, 0.1, 1, NEW)

    assert set(measured.estimates()) == {"precision_at_k", "cost"}
    assert judging.judge(measured, reigning(scorer(rows, 0.1, 2, OLD)), 0, GATE).decision == "undecided"


def test_an_alert_costs_its_check_and_a_missed_fraud_its_amount() -> None:
    limits = TabularEvaluationGate(cost_missed_positive=2, cost_per_alert=3)
    labels, amounts = np.array([1, 1, 0, 0]), np.array([100.0, 40.0, 70.0, 10.0])

    assert judging.costs(labels, amounts, np.array([True, False, True, False]), limits).tolist() == [3, 80, 3, 0]


def test_a_missed_positive_that_was_refunded_costs_as_much_as_one_that_was_paid() -> None:
    labels, missed = np.array([1, 0]), np.array([False, False])

    assert judging.costs(labels, np.array([-40.0, -70.0]), missed, TabularEvaluationGate()).tolist() == [40, 0]


def test_a_model_that_needs_every_number_cannot_score_rows_that_lack_some() -> None:
    manifest = packages.manifest({"trees": b""}, Inputs(numeric=["amount", "signal"], categorical={}))
    lacking = MeasuredRows(config(), Days(date(2024, 3, 1), date(2024, 3, 1)), window(0).assign(signal=np.nan))
    nullable = manifest.model_copy(
        update={"preprocessing": manifest.inputs.model_copy(update={"nullable": ["signal"]})}
    )

    assert lacking.incompatibility(manifest, manifest) == "needs input 'signal', which some test rows lack"
    assert lacking.incompatibility(nullable, nullable) == ""


def test_the_cost_is_that_of_the_models_own_threshold_per_thousand_events() -> None:
    rows = window(0)
    rows.loc[0, "signal"] = 3.0  # a score at the threshold is an alert
    measured = scorer(rows, 0.0, 1, OLD)

    flagged = rows["signal"] >= 3
    missed = (rows["label"] == 1) & ~flagged
    total = 5 * flagged.sum() + rows.loc[missed, "amount"].sum()
    assert (measured.cost.alerts, measured.cost.missed_positives) == (flagged.sum(), missed.sum())
    assert measured.cost.per_1000 == pytest.approx(total / 6)
    assert measured.resamples["cost"].mean() == pytest.approx(measured.cost.per_1000, rel=0.02)
    without_amounts = scorer(rows.drop(columns="amount"), 0.0, 1, OLD)
    assert without_amounts.cost.per_1000 == pytest.approx((5 * flagged.sum() + missed.sum()) / 6)


@pytest.mark.parametrize(
    ("estimate", "text"),
    [
        (BootstrapEstimate(0.6054, 0.7037, 0.6571), "0.657 [0.605, 0.704]"),
        (BootstrapEstimate(-0.0112, 0.0104, -0.0001), "0.000 [-0.011, 0.010]"),
        (BootstrapEstimate(-19.4, -2.1, -11.2), "-11 [-19, -2]"),
    ],
)
def test_an_estimate_reads_as_a_value_and_its_interval(estimate: BootstrapEstimate, text: str) -> None:
    assert str(estimate) == text


def test_every_floor_that_is_missed_is_named() -> None:
    verdict = judging.judge(contender(0.1), reigning(contender(0.6, sha256="old")), 3, GATE)

    assert len(verdict.reasons) == 2


def test_a_test_window_without_rows_is_the_users_mistake() -> None:
    with pytest.raises(UserError, match="no rows left to evaluate on"):
        judging.check_rows(pd.DataFrame({"event_time": pd.to_datetime([]), "label": pd.array([], dtype="Int8")}))


def test_a_due_label_that_is_missing_is_named_by_its_day() -> None:
    rows = pd.DataFrame(
        {
            "event_time": pd.to_datetime(["2024-03-18 10:00", "2024-03-19 11:00", "2024-03-19 12:00"]),
            "label": pd.array([0, None, None], dtype="Int8"),
        }
    )

    with pytest.raises(UserError, match="2 test rows have no label although it is due, the first on 2024-03-19"):
        judging.check_rows(rows)


def test_the_precision_recall_curve_is_the_exact_one_with_fewer_points() -> None:
    rng = np.random.default_rng(0)
    labels = (rng.random(20_000) < 0.05).astype(np.int8)
    scores = rng.random(20_000) + labels * rng.random(20_000)
    precision, recall, _ = precision_recall_curve(labels, scores)

    curve = judging.precision_recall(labels, scores)

    assert 100 < len(curve.recall) <= judging.POINTS
    assert set(zip(curve.recall, curve.precision, strict=True)) <= set(zip(recall, precision, strict=True))
    assert curve.recall == sorted(curve.recall)
    assert max(np.diff(curve.recall)) < 0.02
    assert (curve.recall[0], curve.recall[-1]) == (0, 1)


def test_a_window_without_frauds_has_no_precision_recall_curve() -> None:
    assert judging.precision_recall(np.zeros(5, dtype=np.int8), np.arange(5.0)) == PrecisionRecall(
        recall=[], precision=[]
    )


def test_scores_that_are_probabilities_lie_on_the_diagonal() -> None:
    rng = np.random.default_rng(0)
    scores = rng.beta(0.1, 5, 200_000)
    labels = (rng.random(200_000) < scores).astype(np.int8)

    bins = judging.calibration(labels, scores)

    predicted, observed, count = map(np.array, (bins.predicted, bins.observed, bins.count))
    assert (abs(observed - predicted) < 4 * np.sqrt(predicted / count)).all()
    assert len(bins.count) == judging.CALIBRATION_BINS
    assert bins.predicted == sorted(bins.predicted)
    assert bins.count[-1] <= 2 * judging.SMALLEST_BIN < bins.count[0]


@given(
    scores=arrays(np.float32, st.integers(1, 300), elements=st.sampled_from([0, 0.01, 0.1, 0.5, 0.75, 1])),
    seed=st.integers(0, 9),
)
@settings(deadline=None, max_examples=50)
def test_every_row_is_in_one_calibration_bin_and_equal_scores_share_it(scores: np.ndarray, seed: int) -> None:
    labels = np.random.default_rng(seed).integers(0, 2, len(scores)).astype(np.int8)

    bins = judging.calibration(labels, scores)

    assert sum(bins.count) == len(scores)
    assert np.dot(bins.observed, bins.count) == pytest.approx(labels.sum())
    assert len(set(bins.predicted)) == len(bins.predicted) <= len(set(scores.tolist()))
