"""Slices, calibration and importances."""

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import average_precision_score

from nightshift.contracts.evaluation import Calibration
from nightshift.contracts.preprocessing import DAY, Feature
from nightshift.tasks.tabular import explain, judging

COUNT = Feature(name="customer_count_30d", function="count", entity=["customer"], length=30 * DAY)


def rows(count: int = 20_000, seed: int = 0) -> pd.DataFrame:
    """Scored rows; one in twenty is a fraud, which `telling` gives away and `noise` does not."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"label": pd.array((rng.random(count) < 0.05).astype(int), dtype="Int8")})
    frame["amount"] = rng.gamma(2, 30, count)
    frame["telling"] = rng.normal(2.0 * frame["label"].to_numpy(dtype=float), 1)
    frame["noise"] = rng.normal(size=count)
    frame["customer_count_30d"] = rng.integers(0, 60, count).astype(float)
    frame["is_night"] = (rng.random(count) < 0.1).astype(float)
    frame["score"] = score(frame)
    return frame


def score(frame: pd.DataFrame) -> np.ndarray:
    return frame["telling"].to_numpy() + 0.5 * frame["noise"].to_numpy()


def test_every_row_is_in_one_amount_band() -> None:
    frame = rows()

    bands = [part for part in explain.slices(frame, COUNT) if part.name.startswith("amount")]

    assert len(bands) == 5
    assert sum(part.rows for part in bands) == len(frame)
    assert sum(part.positives for part in bands) == frame["label"].sum()


@pytest.mark.parametrize(("name", "column", "ours"), [("short", "customer_count_30d", 5), ("night", "is_night", 1)])
def test_a_slices_average_precision_is_that_of_its_rows(name: str, column: str, ours: int) -> None:
    frame = rows()
    mask = frame[column] <= ours if name == "short" else frame[column] == ours

    (chosen,) = [part for part in explain.slices(frame, COUNT) if part.name.startswith(name)]

    assert (chosen.rows, chosen.positives) == (mask.sum(), frame.loc[mask, "label"].sum())
    assert chosen.average_precision == average_precision_score(frame.loc[mask, "label"], frame.loc[mask, "score"])


def test_a_slice_with_a_handful_of_frauds_has_no_average_precision() -> None:
    frame = rows()
    frame.loc[frame["is_night"] == 1, "label"] = 0
    frame.loc[frame.index[frame["is_night"] == 1][:9], "label"] = 1

    night = explain.slices(frame, COUNT)[-1]

    assert (night.positives, night.average_precision) == (9, None)


def test_parts_that_the_features_do_not_know_or_that_are_empty_are_left_out() -> None:
    alike, without_amounts = rows()[["label", "amount", "score"]].assign(amount=5.0), rows().drop(columns="amount")

    assert [part.name for part in explain.slices(alike, COUNT)] == ["amount up to 5.00"]
    names = ["short history: at most 5 events in 30 days", "night"]
    assert [part.name for part in explain.slices(without_amounts, COUNT)] == names


def test_a_calibration_is_summed_up_over_rows_not_bins() -> None:
    curve = Calibration(predicted=[0.1, 0.5, 0.9], observed=[0.0, 0.5, 1.0], count=[80, 15, 5])

    summary = explain.CalibrationSummary.from_curve(curve)

    assert summary.predicted == pytest.approx(0.1 * 0.8 + 0.5 * 0.15 + 0.9 * 0.05)
    assert summary.observed == pytest.approx(0.5 * 0.15 + 0.05)
    assert summary.error == pytest.approx(0.1 * 0.8 + 0.1 * 0.05)
    assert (summary.top_predicted, summary.top_observed) == (0.9, 1.0)


def test_calibrated_scores_have_next_to_no_error() -> None:
    rng = np.random.default_rng(0)
    scores = rng.beta(0.5, 5, 100_000)
    labels = (rng.random(100_000) < scores).astype(np.int8)

    assert explain.CalibrationSummary.from_curve(judging.calibration(labels, scores)).error < 0.005
    assert explain.CalibrationSummary.from_curve(judging.calibration(labels, scores / 2)).error > 0.03


def test_the_most_important_input_comes_first_and_one_it_ignores_drops_nothing() -> None:
    ranking = explain.importances(rows(), ["amount", "noise", "telling"], score)

    assert ranking[0][0] == "telling"
    assert ranking[0][1] > 0.1
    assert dict(ranking)["amount"] == 0
    assert ranking == explain.importances(rows(), ["amount", "noise", "telling"], score)


def test_a_drop_is_that_of_all_rows_although_a_sample_is_scored() -> None:
    frame, seen = rows(), []

    def remembered(sample: pd.DataFrame) -> np.ndarray:
        seen.append(len(sample))
        return score(sample)

    ((_, drop),) = explain.importances(frame, ["telling"], remembered)

    shuffled = frame.assign(telling=np.random.default_rng(9).permutation(frame["telling"]))
    whole = average_precision_score(frame["label"], frame["score"])
    assert drop == pytest.approx(whole - average_precision_score(frame["label"], score(shuffled)), abs=0.04)
    assert set(seen) == {explain.SAMPLE}


def test_rows_of_one_class_have_no_importances() -> None:
    assert explain.importances(rows().assign(label=0), ["telling"], score) == []
