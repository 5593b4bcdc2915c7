"""The kernel against a brute-force oracle, which follows the definitions row by row and knows none of its tricks."""

from datetime import timedelta
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nightshift.config import Config, parse
from nightshift.contracts.preprocessing import Feature
from nightshift.runtime.errors import UserError
from nightshift.tabular import frames
from nightshift.tabular.declarations import entity_groups
from nightshift.tabular.ranges import EntityEvents, RangeWindow
from nightshift.tasks.tabular.features import core

CPU = frames.backend("cpu")
HERE = Path(__file__).parent
DAY = 86_400_000_000
START = pd.Timestamp("2024-03-01")
TRICKY = [0, 1, DAY - 1, DAY, DAY + 1, 2 * DAY, 3 * DAY - 1, 3 * DAY, 3 * DAY + 1, 5 * DAY, 6 * DAY]


def config(windows=(1, 2), delay=1, **extra) -> Config:
    preset = {"preset": "payments", "windows": [f"{days}d" for days in windows]}
    return parse(
        {
            "name": "tiny",
            "label_delay_days": delay,
            "source": {"table": "t.csv"},
            "columns": {role: role for role in ("event_id", "event_time", "customer", "terminal", "amount", "label")}
            | extra,
            "features": [preset] if windows else [{"calendar": ["is_weekend", "is_night"]}],
            "task": {
                "kind": "tabular",
                "candidates": {"a": {"kind": "xgboost"}},
            },
        }
    )


def frame(rows) -> pd.DataFrame:
    """Canonical events from (microseconds after START, customer, terminal, cents, label), in order of time."""
    rows = sorted(rows, key=lambda row: row[0])
    return pd.DataFrame(
        {
            "event_id": np.arange(len(rows), dtype=np.int64),
            "event_time": pd.Series([START + timedelta(microseconds=row[0]) for row in rows], dtype="datetime64[us]"),
            "customer": [row[1] for row in rows],
            "terminal": [row[2] for row in rows],
            "amount": np.array([row[3] / 100 for row in rows], dtype=np.float64),
            "label": pd.array([row[4] for row in rows], dtype="Int8"),
        }
    )


def oracle(events: pd.DataFrame, windows, delay) -> pd.DataFrame:
    """The features by definition: for each row look at every row."""
    rows = list(events.itertuples())
    records = []
    for i, row in enumerate(rows):
        now, late = row.event_time, row.event_time - timedelta(days=delay)
        values = {
            "amount": row.amount,
            "is_weekend": float(now.day_name() in ("Saturday", "Sunday")),
            "is_night": float(now.strftime("%H:%M:%S.%f") < "07"),
        }
        for w in windows:
            paid = [
                Fraction(str(other.amount))
                for other in rows[: i + 1]
                if other.customer == row.customer and other.event_time > now - timedelta(days=w)
            ]
            values[f"customer_count_{w}d"] = float(len(paid))
            values[f"customer_mean_amount_{w}d"] = float(sum(paid) / len(paid))
        for w in windows:
            labels = [
                other.label is not pd.NA and other.label == 1
                for other in rows
                if other.terminal == row.terminal and late - timedelta(days=w) < other.event_time <= late
            ]
            values[f"terminal_count_{w}d"] = float(len(labels))
            values[f"terminal_positive_rate_{w}d"] = sum(labels) / len(labels) if labels else 0.0
        records.append(values)
    return pd.DataFrame(records)


def same(left: pd.DataFrame, right: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(left.reset_index(drop=True), right.reset_index(drop=True), check_exact=True)


times = st.sampled_from(TRICKY) | st.integers(0, 7 * DAY)
labels = st.sampled_from([0, 1, None])
cents = st.integers(0, 1_000_000)


def row_of(customer):
    return st.tuples(times, customer, st.integers(0, 1), cents, labels)


numbered = st.lists(row_of(st.integers(0, 2)), min_size=1, max_size=24)
named = st.lists(row_of(st.sampled_from(["c0", "zoë", "c 2"])), min_size=1, max_size=24)


@settings(max_examples=150, deadline=None)
@given(numbered | named, st.sampled_from([(1, 2), (2,), (3, 1)]), st.integers(1, 2))
@example([(0, 0, 0, 100, 1), (DAY, 0, 0, 300, 0), (DAY, 0, 0, 500, 1), (2 * DAY, 0, 0, 700, 0)], (1, 2), 1)
def test_features_are_those_of_the_definition(rows, windows, delay):
    events = frame(rows)
    result = core.features(events, config(windows, delay), CPU)
    expected = oracle(events, windows, delay)
    columns = core.numeric_inputs(config(windows, delay))
    assert list(result.columns) == ["event_id", "event_time", "customer", "label", "terminal", *columns]
    pd.testing.assert_frame_equal(result[columns], expected[columns], check_exact=False, rtol=1e-12, atol=0)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(numbered, st.integers(0, 2))
def test_a_day_with_its_buffer_gives_the_bits_of_the_whole(rows, delay):
    events, chosen = frame(rows), config((1, 2), delay)
    whole = core.features(events, chosen, CPU)
    for day in events["event_time"].dt.floor("D").unique():
        late = events["event_time"] < day + timedelta(days=1)
        part = events[late & (events["event_time"] >= day - timedelta(days=2 + delay))].reset_index(drop=True)
        got = core.features(part, chosen, CPU)
        same(got[got["event_time"] >= day], whole[whole["event_time"].dt.floor("D") == day])


@settings(max_examples=100, deadline=None)
@given(numbered, st.permutations(range(3)))
def test_what_customers_are_called_changes_no_bit(rows, names):
    events = frame(rows)
    renamed = events.assign(customer=[["zz", "a", "m"][names[c]] for c in events["customer"]])
    inputs = core.numeric_inputs(config())
    same(core.features(events, config(), CPU)[inputs], core.features(renamed, config(), CPU)[inputs])


@settings(max_examples=100, deadline=None)
@given(numbered, st.integers(0, 23), st.randoms(use_true_random=False), st.integers(0, 2))
def test_nothing_later_and_no_label_younger_than_the_delay_moves_a_feature(rows, index, random, delay):
    events, chosen = frame(rows), config((1, 2), delay)
    index %= len(events)
    now = events["event_time"][index]
    past = events[: index + 1]
    future = events[index + 1 :].sample(frac=random.random(), random_state=random.randint(0, 9))
    changed = pd.concat([past, future.sort_index()], ignore_index=True)
    later = changed.index > index
    changed.loc[later, "amount"] = changed.loc[later, "amount"] + random.randint(1, 9)
    changed.loc[later, "customer"] = changed["customer"][index]
    strange = changed["event_time"] > now - timedelta(days=delay)
    changed.loc[strange, "label"] = random.choice([0, 1, None])
    # the row's own label travels along as `label`; it is the inputs that must not move
    inputs = core.numeric_inputs(chosen)
    before, after = (core.features(frame, chosen, CPU)[inputs].loc[[index]] for frame in (events, changed))
    same(after, before)


@settings(max_examples=50, deadline=None)
@given(numbered)
def test_without_a_delay_labels_of_the_past_count_and_those_of_the_moment_do_not(rows):
    events = frame(rows)
    result = core.features(events, config((2,), delay=0), CPU)
    for i, row in enumerate(events.itertuples()):
        # the moment before is one microsecond ago
        first, last = row.event_time - timedelta(days=2), row.event_time - timedelta(microseconds=1)
        inside = events["event_time"].between(first, last) & (events["terminal"] == row.terminal)
        assert result["terminal_count_2d"][i] == inside.sum()
        assert result["terminal_positive_rate_2d"][i] * inside.sum() == pytest.approx(
            (events["label"][inside] == 1).sum()
        )


@settings(max_examples=40, deadline=None)
@given(numbered | named, st.sampled_from([1, 2]))
def test_the_rows_of_a_customer_or_a_terminal_alone_give_the_bits_of_the_whole(rows, delay):
    events, chosen = frame(rows), config((1, 2), delay)
    whole = core.features(events, chosen, CPU)
    for group in entity_groups(chosen.feature_spec):
        for key in events[group.name].unique():
            alone = events[group.name] == key
            part = events.loc[alone, ["event_time", *group.columns]].reset_index(drop=True)
            columns = core.compute_group(group, part, chosen, CPU)
            assert list(columns) == [name for name in core.numeric_inputs(chosen) if name.startswith(group.name)]
            same(pd.DataFrame(columns), whole.loc[alone, list(columns)])


small = st.integers(0, 20)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(small, st.integers(0, 5), st.integers(-50, 50)), min_size=6, max_size=20),
    st.lists(st.integers(1, 20), min_size=1, max_size=3),
    st.none() | st.integers(1, 20),
    # in the larger unit key and time together pass int64
    st.sampled_from([1, 2**57]),
)
@example([(time, key, 1) for key in range(6) for time in (0, 10, 20)], [1, 10, 20], None, 2**57)
@example([(time, key, 1) for key in range(6) for time in (0, 10, 20)], [1, 10, 20], 10, 2**57)
def test_windows_are_right_whatever_the_unit_of_time(rows, windows, delay, unit):
    now, codes, values = np.array(sorted(rows), dtype=np.int64).T
    reach = (max(windows) + (delay or 0)) * unit
    events = EntityEvents(np, codes, now * unit, reach, {"amount": values})
    for w in windows:
        feature = Feature(name="f", function="sum", entity=["e"], column="amount", length=w * unit, with_event=True)
        window = RangeWindow(events, (delay or 0) * unit, feature, 1)
        counts, sums = (values_of[np.argsort(events.order)] for values_of in (window.count, window.total))
        for i in range(len(rows)):
            last = now[i] - (delay or 0)
            inside = (codes == codes[i]) & (now > last - w) & (now <= last)
            if delay is None:
                inside[i + 1 :] = False
            assert counts[i] == inside.sum()
            assert sums[i] == values[inside].sum()


def test_more_keys_than_a_byte_can_number_are_told_apart():
    events = frame([(i, i % 300, i % 300, 100, 1) for i in range(600)])
    result = core.features(events, config(), CPU)
    assert result["customer_count_1d"].tolist() == [1.0] * 300 + [2.0] * 300


def test_rows_in_any_order_are_put_in_order_of_time_and_id():
    events = frame([(0, 0, 0, 100, 0), (5, 0, 0, 200, 1), (5, 0, 0, 400, 0), (DAY + 5, 0, 0, 800, 0)])
    same(core.features(events.iloc[[3, 2, 0, 1]], config(), CPU), core.features(events, config(), CPU))


def test_a_single_row_is_its_own_window():
    (row,) = core.features(frame([(0, 7, 9, 1234, None)]), config(), CPU).to_dict("records")
    assert row["customer_count_1d"] == row["customer_count_2d"] == 1
    assert row["customer_mean_amount_1d"] == 12.34
    assert row["terminal_count_2d"] == row["terminal_positive_rate_2d"] == 0


def test_no_rows_give_no_rows_with_the_same_columns_and_types():
    full = core.features(frame([(0, 0, 0, 1, 0)]), config(), CPU)
    empty = core.features(frame([(0, 0, 0, 1, 0)]).iloc[:0], config(), CPU)
    assert len(empty) == 0
    same(empty, full.iloc[:0])


def test_extra_columns_follow_the_features_under_the_users_names():
    chosen = config(numeric=["distance"], categorical=["channel"])
    events = frame([(0, 0, 0, 1, 0), (1, 1, 0, 1, 0)]).assign(distance=[3, 4], channel=["web", None])
    result = core.features(events, chosen, CPU)
    assert list(result.columns[-2:]) == ["distance", "channel"]
    assert core.numeric_inputs(chosen)[-1] == "distance"
    assert result["distance"].dtype == np.float64
    assert result["channel"][0] == "web"


def with_roles(*roles, windows=(1, 2), **extra) -> Config:
    """The config with some of customer, terminal and amount only."""
    columns = {role: role for role in ("event_id", "event_time", *roles, "label")} | extra
    value = config(windows).model_dump(exclude_none=True)
    return parse(value | {"columns": columns})


@pytest.mark.parametrize(
    ("roles", "inputs"),
    [
        (("customer", "terminal"), ["customer_count_1d", "terminal_count_1d", "terminal_positive_rate_1d"]),
        (("customer",), ["customer_count_1d"]),
        (("customer", "amount"), ["amount", "customer_count_1d", "customer_mean_amount_1d"]),
        (("terminal", "amount"), ["amount", "terminal_count_1d", "terminal_positive_rate_1d"]),
    ],
)
def test_what_is_computed_follows_the_roles_and_is_the_same_as_with_all_of_them(roles, inputs):
    events = frame([(0, 0, 5, 100, 1), (5, 0, 5, 200, 0), (DAY, 1, 5, 400, 0), (DAY + 9, 0, 5, 800, 0)])
    chosen = with_roles(*roles, windows=(1,))
    result = core.features(events[list(chosen.columns.roles)], chosen, CPU)
    assert sorted(core.numeric_inputs(chosen)) == sorted([*inputs, "is_weekend", "is_night"])
    same(result[inputs], core.features(events, config((1,)), CPU)[inputs])


def test_without_customers_every_event_is_its_own_and_without_windows_only_its_own_columns_count():
    events = frame([(0, 0, 5, 100, 1), (5, 0, 5, 200, 0)]).assign(event_id=["a-1", "b-2"], distance=[3, 4])
    chosen = with_roles(windows=(), numeric=["distance"])
    result = core.features(events[["event_id", "event_time", "label", "distance"]], chosen, CPU)
    assert result["customer"].tolist() == ["a-1", "b-2"]
    assert list(result) == [*core.KEPT, "is_weekend", "is_night", "distance"]


def test_amounts_are_summed_exactly_in_the_currencys_smallest_unit():
    # in binary floating point 0.1 + 0.2 + 0.3 divided by 3 is not 0.2
    events = frame([(i, 0, 0, cents, 0) for i, cents in enumerate([10, 20, 30])])
    assert core.features(events, config(), CPU)["customer_mean_amount_1d"][2] == 0.2


def test_an_amount_too_large_to_be_summed_exactly_is_refused():
    events = frame([(0, 0, 0, 1, 0), (1, 0, 0, 1, 0)]).assign(amount=[1.0, 1e17])
    with pytest.raises(
        UserError, match=r"'amount' of 2 rows has numbers that are too large .* lower task.amount_decimals \(it is 2\)"
    ):
        core.features(events, config(), CPU)


def test_the_committed_example_is_reproduced():
    """`example.csv` was filled in by hand: windows of 1 and 2 days, a label delay of 1 day; `why` says what counts."""
    example = pd.read_csv(HERE / "example.csv", parse_dates=["event_time"], comment="#")
    events = example.astype({"event_time": "datetime64[us]", "label": "Int8"})
    result = core.features(events, config(), CPU)
    for name in core.numeric_inputs(config()):
        np.testing.assert_allclose(result[name], example[name].astype(float), rtol=1e-12, err_msg=name)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_gpu_gives_the_same_bits_as_the_cpu(device):
    there = frames.backend(device)
    rng = np.random.default_rng(0)
    rows = zip(
        *(rng.integers(0, high, 20_000).tolist() for high in (90 * DAY, 300, 500, 100_000)),
        rng.choice([0, 1, None], 20_000, p=[0.9, 0.05, 0.05]),
        strict=True,
    )
    events, chosen = frame(rows), config((1, 7, 30), 7)
    on_gpu = there.to_host(core.features(there.from_host(events), chosen, there)).astype({"label": "Int8"})
    same(on_gpu, core.features(events, chosen, CPU))
