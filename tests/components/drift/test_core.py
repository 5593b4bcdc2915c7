"""Effect sizes, and what they amount to."""

from collections.abc import Iterable
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import wasserstein_distance
from sklearn.metrics import average_precision_score

from components.drift import core
from nightshift.config.tabular import TabularDriftLimits
from nightshift.contracts.drift import ColumnDrift, Promise, Signal
from nightshift.contracts.verdict import Measure, Verdict
from nightshift.stats import noise, shift
from nightshift.stats.levels import WeekdayLevel
from nightshift.tasks.tabular import drift

GOLDEN = Path(__file__).parents[4] / "shared" / "data" / "handbook" / "golden_features"
LIMITS = TabularDriftLimits(psi=0.2, wasserstein=0.2, max_drifted_share=0.5)
SHARES = arrays(float, 5, elements=st.floats(0, 1)).filter(lambda counts: counts.sum() > 0).map(lambda c: c / c.sum())
# few distinct values make ties, the wide range makes none, and some values are missing
SAMPLES = arrays(float, st.integers(1, 60), elements=st.sampled_from([0, 1, 2, np.nan]) | st.floats(-1e9, 1e9))


def psi(reference: np.ndarray, current: np.ndarray) -> float:
    return column(reference, current).psi


def column(reference: np.ndarray, current: np.ndarray) -> ColumnDrift:
    (moved,) = shift.compare(pd.DataFrame({"x": reference}), [pd.DataFrame({"x": current})], ["x"], LIMITS)
    return moved


def normal(mean: float = 0, size: int = 5000, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(mean, 1, size)


def test_the_stability_index_is_the_sum_of_share_differences_times_log_ratios() -> None:
    index = shift.stability_index(np.array([0.5, 0.5]), np.array([0.75, 0.25]))

    assert index == pytest.approx(0.25 * np.log(0.75 / 0.5) - 0.25 * np.log(0.25 / 0.5))


@given(expected=SHARES, actual=SHARES)
@settings(deadline=None)
def test_the_stability_index_is_symmetric_and_never_negative(expected: np.ndarray, actual: np.ndarray) -> None:
    index = shift.stability_index(expected, actual)

    assert index >= 0
    assert index == pytest.approx(shift.stability_index(actual, expected))


@given(sample=SAMPLES)
@settings(deadline=None)
def test_a_sample_has_not_moved_from_itself(sample: np.ndarray) -> None:
    moved = column(sample, sample)

    assert moved.psi == 0
    assert not moved.wasserstein
    assert not moved.drifted


@given(reference=SAMPLES, current=SAMPLES, seed=st.integers(0, 99))
@settings(deadline=None)
def test_the_order_of_rows_does_not_matter(reference: np.ndarray, current: np.ndarray, seed: int) -> None:
    shuffle = np.random.default_rng(seed).permutation
    before, after = column(reference, current), column(shuffle(reference), shuffle(current))

    assert after.psi == before.psi
    assert (after.wasserstein is None) == (before.wasserstein is None)
    # sums are rounded in another order
    assert after.wasserstein is None or after.wasserstein == pytest.approx(before.wasserstein, rel=1e-6, abs=1e-6)


@given(reference=SAMPLES, current=SAMPLES)
@settings(deadline=None)
def test_every_row_is_in_one_bin(reference: np.ndarray, current: np.ndarray) -> None:
    bins = shift.Numbers.from_reference(reference)
    values = pd.Series(current)
    rows, finite, _ = bins.count(values, bins.locate(values))

    assert (np.diff(bins.edges) > 0).all()
    assert (np.diff(bins.coarse) >= 0).all()
    assert rows.sum() == len(current)
    assert rows[-1] == np.isnan(current).sum()
    assert finite.sum() == np.isfinite(current).sum()


def test_the_bins_of_a_continuous_column_hold_equal_shares_of_the_reference() -> None:
    reference = normal()

    bins = shift.Numbers.from_reference(reference)
    values = pd.Series(reference)
    shares = np.bincount(bins.coarse, weights=bins.count(values, bins.locate(values))[0]) / len(reference)
    # the last bin is that of missing values
    assert shares.tolist() == pytest.approx([*[0.1] * shift.BINS, 0], abs=2 / len(reference))


FEW = np.arange(5000) < 50
SHIFTS = {  # reference, current, and whether the index and the distance notice it
    "no shift": (normal(), normal(seed=1), False, False),
    "of one standard deviation": (normal(), normal(mean=1, seed=1), True, True),
    "of a tail that grows in few rows": (normal(), normal(seed=1) + 30 * FEW, False, True),
    "that is small beside the outliers": (
        np.where(FEW, 1000, normal()),
        np.where(FEW, 1000, normal(mean=1, seed=1)),
        True,
        False,
    ),
}


@pytest.mark.parametrize(("reference", "current", "by_index", "by_distance"), SHIFTS.values(), ids=SHIFTS)
def test_a_shift_is_noticed_by_either_measure(
    reference: np.ndarray, current: np.ndarray, by_index: bool, by_distance: bool
) -> None:
    moved = column(reference, current)

    assert (moved.psi > LIMITS.psi, moved.wasserstein > LIMITS.wasserstein) == (by_index, by_distance)
    assert moved.drifted == (by_index or by_distance)


@given(factor=st.floats(1e-3, 1e3), offset=st.floats(-1e3, 1e3))
@settings(deadline=None)
def test_the_distance_does_not_depend_on_the_unit(factor: float, offset: float) -> None:
    reference, current = normal(size=200), normal(mean=0.5, size=300, seed=1)
    distance = column(reference * factor + offset, current * factor + offset).wasserstein

    assert distance == pytest.approx(column(reference, current).wasserstein, rel=1e-3)


@given(reference=SAMPLES, current=SAMPLES)
@settings(deadline=None)
def test_the_distance_is_off_by_no_more_than_values_lie_from_their_bins_mean(
    reference: np.ndarray, current: np.ndarray
) -> None:
    gap, values = column(reference, current).wasserstein, [side[np.isfinite(side)] for side in (reference, current)]
    if gap is None:
        return
    edges, spread = shift.Numbers.from_reference(reference).edges, values[0].std()

    def within(side: np.ndarray) -> float:
        at = pd.Series(np.searchsorted(edges, side))
        return float((pd.Series(side) - pd.Series(side).groupby(at).transform("mean")).abs().mean())

    exact = wasserstein_distance(*values) / spread
    bound = sum(within(side) for side in values) / spread
    assert abs(gap - exact) <= bound + 1e-6 * (1 + exact)


@pytest.mark.parametrize("shift", [0.0, 0.05, 0.5, 20.0])
@pytest.mark.parametrize("draw", ["normal", "exponential", "lognormal"])
def test_the_distance_from_counts_is_that_of_the_values(draw: str, shift: float) -> None:
    rng = np.random.default_rng(0)
    reference, current = (getattr(rng, draw)(size=rows) for rows in (10_000, 60_000))
    current = current + shift

    exact = wasserstein_distance(reference, current) / reference.std()
    assert column(reference, current).wasserstein == pytest.approx(exact, abs=0.003)


@given(sample=SAMPLES, cuts=st.lists(st.integers(0, 60), max_size=4))
@settings(deadline=None)
def test_rows_may_come_in_batches_of_any_size(sample: np.ndarray, cuts: list[int]) -> None:
    frame = pd.DataFrame({"x": sample, "c": np.where(sample > 0, "more", "less")})
    bounds = [0, *sorted(cuts), len(frame)]
    batches = [frame.iloc[a:b] for a, b in pairwise(bounds)]

    whole, parts = (shift.compare(frame, rows, ["x"], LIMITS) for rows in ([frame], batches))
    assert [moved.psi for moved in parts] == [moved.psi for moved in whole]
    assert (parts[0].wasserstein or 0) == pytest.approx(whole[0].wasserstein or 0, abs=1e-6)


@pytest.mark.parametrize(("value", "mean"), [(1, 1), (np.nan, None)], ids=["constant", "without any value"])
def test_a_column_of_one_value_that_stays_has_not_drifted(value: float, mean: float | None) -> None:
    moved = column(np.full(100, value), np.full(50, value))
    assert (moved.psi, moved.wasserstein, moved.drifted) == (0, None, False)
    assert (moved.reference_mean, moved.current_mean) == (mean, mean)


@pytest.mark.parametrize("value", [0.999999, 1.000001, np.nan, np.inf])
def test_a_constant_column_that_is_left_in_any_direction_has_drifted(value: float) -> None:
    moved = column(np.ones(1000), np.where(np.arange(1000) < 900, 1, value))

    assert moved.psi > LIMITS.psi
    assert moved.wasserstein is None
    assert moved.drifted


def test_a_flag_is_binned_by_value() -> None:
    reference, current = np.arange(1000) % 10 == 0, np.arange(1000) % 10 < 4

    expected = shift.stability_index(np.array([0.9, 0.1]), np.array([0.6, 0.4]))
    assert psi(reference.astype(float), current.astype(float)) == pytest.approx(expected)


def test_a_frequent_value_does_not_hide_what_happens_around_it() -> None:
    reference = np.where(np.arange(1000) < 950, 0.0, 1.0)

    assert psi(reference, np.where(np.arange(1000) < 950, 0.0, -1.0)) > LIMITS.psi


def test_values_that_go_missing_are_noticed_and_do_not_hide_a_shift_of_the_others() -> None:
    holes = np.arange(5000) % 5 == 0
    complete, holed, moved = normal(), np.where(holes, np.nan, normal(seed=1)), np.where(holes, np.nan, normal(1))

    assert psi(complete, holed) > LIMITS.psi
    assert psi(np.where(holes, np.nan, complete), moved) > LIMITS.psi


def test_a_single_row_in_a_bin_that_was_empty_is_no_shift() -> None:
    current = np.ones(1000)
    current[0] = 2

    assert column(np.ones(1000), current).psi < 0.01


def test_a_category_is_compared_by_its_share() -> None:
    before, now = pd.DataFrame({"c": ["a", "a", "b", "b"]}), pd.DataFrame({"c": ["a", "a", "a", "b"]})

    (moved,) = shift.compare(before, [now], [], LIMITS)

    assert moved.psi == pytest.approx(shift.stability_index(np.array([0.5, 0.5]), np.array([0.75, 0.25])))
    assert (moved.wasserstein, moved.reference_mean, moved.current_mean) == (None, None, None)


def test_categories_that_the_reference_lacks_share_one_bin_and_are_noticed() -> None:
    before, now = pd.DataFrame({"c": ["a", "b"]}), pd.DataFrame({"c": ["a", "x", "y", "b"]})

    (moved,) = shift.compare(before, [now], [], LIMITS)

    assert moved.psi == pytest.approx(shift.stability_index(np.array([0.5, 0.5, 0]), np.array([0.25, 0.25, 0.5])))
    assert moved.drifted


def test_a_drifted_category_is_reported_by_its_index_alone() -> None:
    category = columns(True)[0].model_copy(update={"name": "country", "psi": 0.5, "wasserstein": None})

    verdict = judged([category, *columns(False)])

    assert verdict.reasons[-1] == "Input country drifted: PSI 0.500 (limit 0.2)."


def columns(*drifted: bool, score: bool = False) -> list[ColumnDrift]:
    limits = {"psi_limit": LIMITS.psi, "wasserstein_limit": LIMITS.wasserstein}
    figures = {"wasserstein": 0.02, "reference_mean": 0.1, "current_mean": 0.1} | limits
    inputs = [ColumnDrift(name=f"x{i}", psi=0.5 + i, drifted=moved, **figures) for i, moved in enumerate(drifted)]
    return [*inputs, ColumnDrift(name="score", psi=0.01, drifted=score, **figures)]


def judged(columns: list[ColumnDrift], *others: Signal) -> Verdict:
    return core.judge("sha", columns, [*core.shifts(columns, LIMITS), *others])


@pytest.mark.parametrize(
    ("compared", "decision", "share"),
    [
        (columns(False, False), "pass", 0),
        (columns(True, False), "pass", 0.5),
        (columns(True, True, False), "fail", 2 / 3),
        (columns(False, False, score=True), "fail", 0),
    ],
)
def test_data_have_drifted_when_too_many_inputs_have_or_the_score_has(
    compared: list[ColumnDrift], decision: str, share: float
) -> None:
    verdict = judged(compared)

    assert (verdict.decision, verdict.measures[0].value, verdict.advisory) == (decision, share, True)


@given(inputs=st.lists(st.booleans(), max_size=3), has_score=st.booleans())
def test_of_any_columns_that_are_compared_the_inputs_give_one_signal_and_the_score_another(
    inputs: list[bool], has_score: bool
) -> None:
    compared = columns(*inputs)[: len(inputs) + has_score]
    share = sum(inputs) / len(inputs) if inputs else 0
    expected = ([("inputs", share)] if inputs else []) + ([("score", 0.01)] if has_score else [])

    verdict = judged(compared)

    assert [(measure.name, measure.value) for measure in verdict.measures] == expected
    assert core.drifted_share(compared) == share


def test_the_reasons_name_the_drifted_inputs_worst_first() -> None:
    assert judged(columns(True, False, True)).reasons == [
        "2 of 3 inputs drifted (67%); at most 50% may.",
        "The score did not drift: PSI 0.010 (limit 0.2), Wasserstein 0.020 standard deviations (limit 0.2).",
        "Input x2 drifted: PSI 2.500 (limit 0.2), Wasserstein 0.020 standard deviations (limit 0.2).",
        "Input x0 drifted: PSI 0.500 (limit 0.2), Wasserstein 0.020 standard deviations (limit 0.2).",
    ]


def test_the_published_features_are_stable_over_two_weeks_and_raised_amounts_are_not() -> None:
    if not GOLDEN.is_dir():
        pytest.skip(f"needs the published features in {GOLDEN}")
    days = [pd.read_parquet(path) for path in sorted(GOLDEN.glob("*.parquet"))]
    inputs = [name for name in days[0] if name.startswith(("TX_AMOUNT", "TX_DURING", "CUSTOMER_ID_", "TERMINAL_ID_"))]
    reference, current = pd.concat(days[:7])[inputs], pd.concat(days[-7:])[inputs]
    assert len(inputs) == 15

    columns = shift.compare(reference, [current], inputs, TabularDriftLimits())
    dearer = current.assign(TX_AMOUNT=current["TX_AMOUNT"] * 1.5)
    raised = shift.compare(reference, [dearer], inputs, TabularDriftLimits())

    assert max(moved.psi for moved in columns) < 0.05
    assert max(moved.wasserstein or 0 for moved in columns) < 0.1
    assert [moved.name for moved in raised if moved.drifted] == ["TX_AMOUNT"]


@pytest.mark.parametrize(
    ("rows", "raised"), [(100, False), (149, False), (151, True), (68, False), (66, True), (0, True)]
)
def test_more_or_fewer_rows_than_the_limit_allows_are_noticed(rows: int, raised: bool) -> None:
    usual = WeekdayLevel("Sunday", days=2, expected=100, chance=0)

    assert core.volume(rows, usual, limit=0.5).raised == raised


@pytest.mark.parametrize(("labeled", "raised"), [(0, True), (49, True), (51, False), (100, False)])
def test_labels_are_late_when_fewer_than_half_of_their_days_rows_have_them(labeled: int, raised: bool) -> None:
    assert core.labels(labeled, 100).raised == raised
    assert core.labels(0, 0).raised, "a day that lost its rows has no labels either"


FIRST = date(2025, 3, 3)  # a Monday


def days(counts: Iterable[int]) -> dict[date, int]:
    return {FIRST + timedelta(days=number): rows for number, rows in enumerate(counts)}


WEEK = [1200] * 6 + [400]
REFERENCES = {  # rows by day from a Monday on -> those expected on the Sunday after them, None where that is unknown
    "one week": (WEEK, 400),
    "three weeks, one Sunday of which is a feast": ([*WEEK, *WEEK, *WEEK[:6], 1300], 400),
    "a fortnight whose first Sunday was closed": ([*WEEK[:6], 0, *WEEK], 400),
    "five days": (WEEK[:5], None),
    "two weeks that are closed on Sundays": (2 * [*WEEK[:6], 0], None),
    "nothing": ([], None),
}


@pytest.mark.parametrize(("counts", "expected"), REFERENCES.values(), ids=REFERENCES)
def test_a_quiet_sunday_is_held_to_sundays_and_an_empty_one_is_noticed(counts: list[int], expected: int | None) -> None:
    sunday = FIRST + timedelta(days=27)
    level = WeekdayLevel.from_days(days(counts), sunday)
    quiet, halved, empty = (core.volume(rows, level, limit=0.5) for rows in (400, 200, 0))

    assert (level.expected or None) == expected
    assert (quiet.raised, halved.raised, empty.raised) == (False, expected is not None, True)
    assert f"{expected} expected on a Sunday" in quiet.reason or "the model knows no Sunday" in quiet.reason


@pytest.mark.parametrize("spread", [0.05, 0.4])
def test_a_days_rows_exceed_their_limit_as_rarely_as_stated_where_days_are_drawn_alike(spread: float) -> None:
    random, raised = np.random.default_rng(0), 0
    for _ in range(400):
        rows = np.exp(random.normal(0, spread, 22)) * 3000 * np.resize([1, 1, 1, 1, 1.2, 0.8, 0.3], 22)
        *before, (today, count) = days(rows.astype(int)).items()
        raised += core.volume(count, WeekdayLevel.from_days(dict(before), today), limit=0.05).raised

    assert raised <= 2.5 * noise.FALSE_ALARMS * 400


def scored(positives: int, hidden: int = 0) -> np.ndarray:
    """Ranks of 1000 legitimate rows and positives, all of which score higher but for the hidden ones."""
    truth = np.repeat([0, 1], [1000, positives]).astype(np.int8)
    scores = np.repeat([0.2, 0.01, 0.9], [1000, hidden, positives - hidden]).astype(np.float32)
    return drift.rank(truth, scores)


def test_a_model_that_no_longer_finds_frauds_has_decayed() -> None:
    promise = Promise(metric="average_precision", value=0.9, measured="when it was evaluated")
    decay = drift.performance(scored(300, hidden=100), promise, LIMITS)

    assert decay.raised
    assert decay.reason.endswith("(300 positives), 0.900 when it was evaluated.")
    assert decay.value == pytest.approx(0.9 - (200 + 100 * 300 / 1300) / 300)
    assert not drift.performance(scored(300), promise, LIMITS).raised


def test_few_frauds_say_nothing_about_the_model_or_of_fraud() -> None:
    frame = pd.DataFrame({"x": normal(size=199)})

    assert (
        drift.performance(
            scored(199, hidden=199), Promise(metric="average_precision", value=0.9, measured="once"), LIMITS
        ).value
        is None
    )
    assert drift.positives(frame, frame + 9, ["x"], LIMITS).value is None
    assert drift.positives(frame[:49], pd.concat([frame, frame]) + 9, ["x"], LIMITS).value is None


@given(data=st.data(), rows=st.integers(2, 50))
@settings(deadline=None)
def test_average_precision_from_ranks_is_scikit_learns(data: st.DataObject, rows: int) -> None:
    truth = np.array(data.draw(st.lists(st.integers(0, 1), min_size=rows, max_size=rows)), dtype=np.int8)
    levels = st.sampled_from([-0.0, 0.0, 1e-9, 0.1, 0.5, 0.75, 1.0])
    scores = np.array(data.draw(st.lists(levels, min_size=rows, max_size=rows)), dtype=np.float32)
    assume(truth.any())

    assert drift.average_precision(drift.rank(truth, scores)) == pytest.approx(average_precision_score(truth, scores))


def test_ranks_of_many_rows_lose_almost_nothing() -> None:
    rng = np.random.default_rng(0)
    truth = (rng.random(50_000) < 0.01).astype(np.int8)
    scores = (rng.beta(1, 20, len(truth)) + 0.2 * truth * rng.random(len(truth))).clip(0, 1).astype(np.float32)

    exact = average_precision_score(truth, scores)
    assert drift.average_precision(drift.rank(truth, scores)) == pytest.approx(exact, abs=1e-3)


def test_positives_that_move_among_themselves_are_noticed_and_the_input_is_named() -> None:
    before = pd.DataFrame({"amount": normal(size=300), "night": np.arange(300) % 6 == 0}).astype(float)
    now = before.assign(night=1.0)

    signal = drift.positives(before, now, ["amount", "night"], LIMITS)

    assert signal.raised
    assert "night moved most" in signal.reason
    assert not drift.positives(before, before, ["amount", "night"], LIMITS).raised


def test_any_raised_signal_makes_the_verdict_and_is_among_its_reasons() -> None:
    late = core.labels(0, 100)

    verdict = judged(columns(False), late)

    assert verdict.decision == "fail"
    assert verdict.measures[-1] == Measure(name="labels", value=0, limit=core.LABELED)
    assert late.reason in verdict.reasons
