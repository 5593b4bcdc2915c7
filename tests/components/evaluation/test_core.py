"""The gate and the curves."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import precision_recall_curve

from components.common.config import Evaluation
from components.common.errors import UserError
from components.common.metrics import Metrics
from components.evaluation import core

GATE = Evaluation(min_frauds=50, min_average_precision=0.3, max_average_precision=0.99, tolerance=0.01)
NONE_YET = "There is no champion yet."


def measured(average_precision: float | None) -> Metrics:
    return {
        "auc_roc": 0.8,
        "average_precision": average_precision,
        "card_precision": 0.2,
        "card_precision_ceiling": 0.4,
    }


def challenger(average_precision: float | None) -> core.Contender:
    return core.Contender("new", measured(average_precision))


def champion(average_precision: float, sha256: str = "old") -> core.Champion:
    return core.Champion(sha256, measured(average_precision), version=7)


@pytest.mark.parametrize(
    ("average_precision", "frauds", "decision", "says"),
    [
        (0.60, 49, "keep", "hold 49 frauds; fewer than 50"),
        (0.60, 50, "promote", "average precision 0.600 on 50 frauds"),
        (0.29, 500, "keep", "0.290 is below the floor 0.3"),
        (0.30, 500, "promote", "average precision 0.300"),
        (0.99, 500, "promote", "average precision 0.990"),
        (0.995, 500, "keep", "0.995 is above 0.99: too good to be true"),
        (None, 500, "keep", "one class only"),
    ],
)
def test_a_challenger_without_a_champion_is_promoted_when_the_floors_hold(
    average_precision: float | None, frauds: int, decision: str, says: str
) -> None:
    verdict = core.judge(challenger(average_precision), NONE_YET, frauds, GATE)

    assert verdict.decision == decision
    assert verdict.reasons[0] == NONE_YET
    assert says in verdict.reasons[-1]


@pytest.mark.parametrize(
    ("average_precision", "decision", "says"),
    [
        (0.65, "promote", "0.650, that of champion version 7 0.600 on the same rows: not worse by more than 0.01"),
        (0.591, "promote", "0.591, that of champion version 7 0.600"),
        (0.589, "keep", "0.589, that of champion version 7 0.600 on the same rows: worse by more than 0.01"),
        (0.25, "keep", "below the floor"),
    ],
)
def test_a_fresher_challenger_replaces_a_champion_it_is_not_worse_than(
    average_precision: float, decision: str, says: str
) -> None:
    verdict = core.judge(challenger(average_precision), champion(0.6), 100, GATE)

    assert verdict.decision == decision
    assert says in " ".join(verdict.reasons)


def test_a_challenger_identical_to_the_champion_changes_nothing() -> None:
    verdict = core.judge(challenger(0.6), champion(0.6, sha256="new"), 100, GATE)

    assert verdict == core.Verdict("keep", ["The challenger is identical to champion version 7."])


def test_every_floor_that_is_missed_is_named() -> None:
    verdict = core.judge(challenger(0.1), champion(0.6), 3, GATE)

    assert len(verdict.reasons) == 2


def test_a_test_window_without_rows_is_the_users_to_mend() -> None:
    with pytest.raises(UserError, match="no rows left to evaluate on"):
        core.checked(pd.DataFrame({"event_time": pd.to_datetime([]), "label": pd.array([], dtype="Int8")}))


def test_a_due_label_that_is_missing_is_named_by_its_day() -> None:
    rows = pd.DataFrame(
        {
            "event_time": pd.to_datetime(["2024-03-18 10:00", "2024-03-19 11:00", "2024-03-19 12:00"]),
            "label": pd.array([0, None, None], dtype="Int8"),
        }
    )

    with pytest.raises(UserError, match="2 test rows have no label although it is due, the first on 2024-03-19"):
        core.checked(rows)


def test_the_precision_recall_curve_is_the_exact_one_with_fewer_points() -> None:
    rng = np.random.default_rng(0)
    labels = (rng.random(20_000) < 0.05).astype(np.int8)
    scores = rng.random(20_000) + labels * rng.random(20_000)
    precision, recall, _ = precision_recall_curve(labels, scores)

    curve = core.precision_recall(labels, scores)

    assert 100 < len(curve["recall"]) <= core.POINTS
    assert set(zip(curve["recall"], curve["precision"], strict=True)) <= set(zip(recall, precision, strict=True))
    assert curve["recall"] == sorted(curve["recall"])
    assert max(np.diff(curve["recall"])) < 0.02
    assert (curve["recall"][0], curve["recall"][-1]) == (0, 1)


def test_a_window_without_frauds_has_no_precision_recall_curve() -> None:
    assert core.precision_recall(np.zeros(5, dtype=np.int8), np.arange(5.0)) == {"recall": [], "precision": []}


def test_scores_that_are_probabilities_lie_on_the_diagonal() -> None:
    rng = np.random.default_rng(0)
    scores = rng.beta(0.1, 5, 200_000)
    labels = (rng.random(200_000) < scores).astype(np.int8)

    bins = core.calibration(labels, scores)

    predicted, observed, count = (np.array(bins[name]) for name in ("predicted", "observed", "count"))
    assert (abs(observed - predicted) < 4 * np.sqrt(predicted / count)).all()
    assert len(bins["count"]) == core.CALIBRATION_BINS
    assert bins["predicted"] == sorted(bins["predicted"])
    assert bins["count"][-1] <= 2 * core.SMALLEST_BIN < bins["count"][0]


@given(
    scores=arrays(np.float32, st.integers(1, 300), elements=st.sampled_from([0, 0.01, 0.1, 0.5, 0.75, 1])),
    seed=st.integers(0, 9),
)
@settings(deadline=None, max_examples=50)
def test_every_row_is_in_one_calibration_bin_and_equal_scores_share_it(scores: np.ndarray, seed: int) -> None:
    labels = np.random.default_rng(seed).integers(0, 2, len(scores)).astype(np.int8)

    bins = core.calibration(labels, scores)

    assert sum(bins["count"]) == len(scores)
    assert np.dot(bins["observed"], bins["count"]) == pytest.approx(labels.sum())
    assert len(set(bins["predicted"])) == len(bins["predicted"]) <= len(set(scores.tolist()))
