"""Declared features by their definition: batch, snapshot and embedded state give the bits of a loop over all events."""

import itertools
import math
import os
import random
from datetime import date, timedelta
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightshift.config import parse
from nightshift.config.tabular import TabularConfig
from nightshift.contracts.preprocessing import Feature
from nightshift.data.aggregations import HALF_LIVES, NEGLIGIBLE, STEPS
from nightshift.data.splits import Days, buffer_days
from nightshift.runtime.errors import UserError
from nightshift.tabular import declarations, frames
from nightshift.tabular.online import skew, snapshot
from nightshift.tabular.online.base import Base
from nightshift.tabular.online.shared import Shared
from nightshift.tabular.online.state import Label, OnlineState
from nightshift.tasks.tabular.features import core
from nightshift_testkit import redis

CPU = frames.backend("cpu")
TIMES = int(os.environ.get("NIGHTSHIFT_TEST_TIMES", "1"))  # cases of a night: see tests/nightly/declarations.py
FIRST, DAYS = date(2025, 3, 28), 9
MINUTE, HOUR, DAY = 60_000_000, 3_600_000_000, 86_400_000_000
START = (FIRST - date(1970, 1, 1)).days * DAY
COLUMNS = {"event_id": "id", "event_time": "at", "customer": "card", "terminal": "shop", "amount": "paid", "label": "y"}
FURTHER: dict[str, Any] = {"numeric": ["km"], "categorical": ["kind", "country"]}
BASE = {
    "name": "tiny",
    "label_delay_days": 1,
    "source": {"table": "t.csv"},
    "columns": COLUMNS | FURTHER,
    "task": {"kind": "tabular", "candidates": {"a": {"kind": "xgboost"}}},
}
OF_NUMBERS = ["count", "sum", "mean", "std", "min", "max", "first", "last", "ratio", "difference", "zscore"]
OF_TIMES = ["count", "seconds_since_last", "seconds_since_previous(2)", "decayed_count(6h)"]
WINDOWS = ["30m", "6h", "1d", "3d", "last 1 of 1d", "last 3 of 3d"]
entities = st.sampled_from([["card"], ["shop"], ["kind"], ["card", "kind"], ["shop", "country", "kind"]])


@st.composite
def lines(draw: Any) -> dict[str, Any]:
    """A line of a declaration; its number makes the names differ."""
    reads = draw(st.sampled_from(["numbers", "times", "values", "labels"]))
    line: dict[str, Any] = {"entity": draw(entities)}
    functions = {"numbers": OF_NUMBERS, "times": OF_TIMES, "values": ["distinct"], "labels": ["positive_rate", "count"]}
    line["functions"] = draw(st.lists(st.sampled_from(functions[reads]), min_size=1, max_size=4, unique=True))
    if reads == "labels":
        line["functions"] = [*dict.fromkeys(["positive_count", *line["functions"]])]
    elif draw(st.booleans()):
        line["with_event"] = False
    line["column"] = {"numbers": draw(st.sampled_from(["paid", "km"])), "values": "country"}.get(reads)
    lengths = WINDOWS[:4] if reads == "labels" else WINDOWS
    line["windows"] = draw(st.lists(st.sampled_from(lengths), min_size=1, max_size=2, unique=True))
    if draw(st.integers(0, 3)) == 0:
        line["offset"] = draw(st.sampled_from(["30m", "1d"]))
    return {name: value for name, value in line.items() if value is not None}


def configured(declared: list[dict[str, Any]], **changes: Any) -> TabularConfig:
    features = [line | {"name": f"f{number}"} for number, line in enumerate(declared)]
    config = parse(BASE | {"features": features} | changes)
    assert isinstance(config, TabularConfig)
    return config


def events(seed: int, size: int, grain: int) -> pd.DataFrame:
    """Canonical events in order of time; a coarse grain makes many of the same time."""
    draw = random.Random(seed)
    times = sorted(START + draw.randrange(DAYS * DAY // grain) * grain for _ in range(size))
    return pd.DataFrame(
        {
            "event_id": np.arange(size),
            "event_time": np.array(times, "datetime64[us]"),
            "customer": [draw.choice(["ann", "zoë", "1:a"]) for _ in times],
            "terminal": [draw.randrange(3) for _ in times],
            "amount": [draw.randrange(-500, 5000) / 100 for _ in times],
            "label": pd.array([draw.choice([0, 1, None]) for _ in times], dtype="Int8"),
            "km": [draw.randrange(10**6) / 10**4 for _ in times],
            "kind": [draw.choice(["a", "b", ""]) for _ in times],
            "country": [draw.choice(["de", "fr", "it", "es"]) for _ in times],
        }
    )


class Definition:
    """What a feature is, by looking at every event."""

    def __init__(self, table: pd.DataFrame, config: TabularConfig) -> None:
        self.rows: list[Any] = list(table.itertuples())
        self.times = [time.value // 1000 for time in table["event_time"]]
        self.delay = config.label_delay_days * DAY

    def window(self, feature: Feature, index: int, length: int) -> list[int]:
        """Return the positions of the events in the window of one."""
        lag = feature.offset + (self.delay if feature.reads_labels else 0)
        until = self.times[index] - lag
        inside = [
            other
            for other in range(len(self.rows))
            if all(getattr(self.rows[other], name) == getattr(self.rows[index], name) for name in feature.entity)
            and until - length < self.times[other] <= until
            and (lag or other < index + feature.with_event)
        ]
        return inside[-feature.newest :] if feature.newest else inside

    def compute(self, feature: Feature, index: int) -> float:
        """Return a feature of one event."""
        inside = self.window(feature, index, feature.length)
        scale = 100 if feature.column == "amount" else 10**4
        if feature.column and feature.function != "distinct":
            numbers = [round(getattr(self.rows[other], feature.column) * scale) for other in inside]
            own = round(getattr(self.rows[index], feature.column) * scale) / scale
            return self._of_numbers(feature.function, numbers, own, scale)
        return float(self._of_events(feature, inside, index))

    def _of_events(self, feature: Feature, inside: list[int], index: int) -> float:
        positives = sum(self.rows[other].label is not pd.NA and self.rows[other].label == 1 for other in inside)
        match feature.function:
            case "count":
                return len(inside)
            case "distinct":
                return len({getattr(self.rows[other], str(feature.column)) for other in inside})
            case "positive_count":
                return positives
            case "positive_rate":
                return positives / len(inside) if inside else 0.0
            case "decayed_count":
                step = feature.argument // 2
                edges = [len(self.window(feature, index, number * step)) for number in range(STEPS + 1)]
                return sum(
                    (float(edges[number + 1] - edges[number]) * 2.0 ** (-number / 2) for number in range(STEPS)), 0.0
                )
        back = feature.argument or 1
        return (self.times[index] - self.times[inside[-back]]) / 1e6 if len(inside) >= back else math.nan

    def _of_numbers(self, function: str, numbers: list[int], own: float, scale: int) -> float:
        if function == "count":
            return float(len(numbers))
        if function == "sum":
            return sum(numbers) / scale
        if not numbers:
            return math.nan
        mean, square = sum(numbers) / len(numbers), sum(number * number for number in numbers) / len(numbers)
        variance = square - mean * mean
        deviation = (0.0 if variance <= square * NEGLIGIBLE else math.sqrt(variance)) / scale
        mean = sum(numbers) / (len(numbers) * scale)
        simple = {"mean": mean, "std": deviation, "min": min(numbers) / scale, "max": max(numbers) / scale}
        simple |= {"first": numbers[0] / scale, "last": numbers[-1] / scale, "difference": own - mean}
        divisors = {"ratio": (own, mean), "zscore": (own - mean, deviation)}
        if function in divisors:
            dividend, divisor = divisors[function]
            return dividend / divisor if divisor else math.nan
        return simple[function]


seeds = st.integers(0, 2**32)
declarations_drawn = st.lists(lines(), min_size=1, max_size=5)


@settings(max_examples=60 * TIMES, deadline=None)
@given(declarations_drawn, seeds, st.integers(1, 40), st.sampled_from([1, 10 * MINUTE, HOUR, 12 * HOUR]))
def test_batch_and_online_features_are_those_of_the_definition(declared, seed, size, grain) -> None:
    config, table = configured(declared), events(seed, size, grain)
    definition, names = Definition(table, config), core.numeric_inputs(config)
    spec = {feature.name: feature for feature in config.feature_spec.features}

    computed = core.features(table, config, CPU)
    for name, feature in spec.items():
        expected = [definition.compute(feature, index) for index in range(size)]
        assert np.array_equal(computed[name], expected, equal_nan=True), (name, feature)
        assert feature.nullable or not computed[name].isna().any()

    # the snapshot ends so late that the windows of the last day reach no further back than it does
    last = FIRST + timedelta(days=DAYS - 1)
    before = Days(last - timedelta(days=max(buffer_days(config), 1)), last - timedelta(days=1))
    days = table["event_time"].dt.date
    base = snapshot.in_memory(config, before, table[(days >= before.first) & (days < last)].reset_index(drop=True))
    replayed = skew.replay(
        base, table[days == last].reset_index(drop=True), computed[days == last].reset_index(drop=True), config
    )
    assert replayed.differing == 0, replayed
    assert list(computed)[-len(names) - 2 : -2] == names


@settings(max_examples=30 * TIMES, deadline=None)
@given(declarations_drawn, seeds, st.integers(2, 30))
def test_events_that_come_late_are_put_in_their_places(declared, seed, size) -> None:
    config, table = configured(declared), events(seed, size, 1)
    expected = core.features(table, config, CPU)[core.numeric_inputs(config)].to_numpy()[-1]
    first = FIRST - timedelta(days=1)
    state = OnlineState(snapshot.in_memory(config, Days(first, first), table.iloc[:0]), clock=lambda: 2e9)
    pairs = list(skew.pair_events(table, config))
    for event, label in [*random.Random(seed).sample(pairs[:-1], size - 1), pairs[-1]]:
        row = skew._take_in(state, event, label)

    assert np.array_equal(row, expected, equal_nan=True)


def lay_over(config: TabularConfig, table: pd.DataFrame, seed: int) -> tuple[Base, pd.DataFrame, pd.DataFrame]:
    """Return a snapshot that lacks some events of its last day, all events as the batch has them, and the others."""
    last = FIRST + timedelta(days=DAYS - 2)
    draw, days = random.Random(seed), table["event_time"].dt.date
    is_late = (days > last) | ((days == last) & np.array([draw.random() < 0.4 for _ in days]))
    order = np.lexsort([is_late, table["event_time"]])
    ordered, is_late = table.iloc[order].reset_index(drop=True), is_late.iloc[order].reset_index(drop=True)
    covered = Days(last - timedelta(days=max(buffer_days(config), 1)), last)
    is_covered = ~is_late & (ordered["event_time"].dt.date >= covered.first)
    return snapshot.in_memory(config, covered, ordered[is_covered].reset_index(drop=True)), ordered, ordered[is_late]


def answer_again(take: Any, base: Base, table: pd.DataFrame, config: TabularConfig) -> None:
    """Have a store answer all events that it knows once more, and compare with the batch."""
    expected = core.features(table, config, CPU)[core.numeric_inputs(config)].to_numpy()
    for row, (event, _) in zip(expected, skew.pair_events(table, config), strict=True):
        if event.time >= base.oldest:
            assert np.array_equal(take(event), row, equal_nan=True), event


@settings(max_examples=40 * TIMES, deadline=None)
@given(declarations_drawn, seeds, st.integers(2, 40), st.sampled_from([1, HOUR, 12 * HOUR]))
def test_events_of_a_day_that_the_snapshot_covers_lie_among_its_own(declared, seed, size, grain) -> None:
    config = configured(declared)
    base, table, late = lay_over(config, events(seed, size, grain), seed)
    state = OnlineState(base, clock=lambda: 2e9)
    for event, label in skew.pair_events(late.reset_index(drop=True), config):
        skew._take_in(state, event, label)

    answer_again(lambda event: state.take(event)[0], base, table, config)


@pytest.mark.slow
def test_redis_gives_the_same_bits(tmp_path) -> None:
    with redis.serve(tmp_path) as url:

        @settings(max_examples=25 * TIMES, deadline=None)
        @given(declarations_drawn, seeds, st.integers(2, 40), st.sampled_from([1, HOUR, 12 * HOUR]))
        def check(declared: list[dict[str, Any]], seed: int, size: int, grain: int) -> None:
            config = configured(declared)
            base, table, late = lay_over(config, events(seed, size, grain), seed)
            store = Shared(lambda: url, f"case-{next(numbers)}", base, clock=lambda: 2e9)
            for event, label in skew.pair_events(late.reset_index(drop=True), config):
                store.take([event])
                if label is not None:
                    assert store.label(Label(event.event_id, event.time, label))
            answer_again(lambda event: store.take([event])[0], base, table, config)
            store.close()

        numbers = itertools.count()
        check()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ({"entity": "card", "functions": ["mean"], "windows": ["1d"]}, "column: is missing, and mean reads a number"),
        (
            {"entity": "card", "functions": ["mode"], "windows": ["1d"]},
            "functions: 'mode' is none; allowed: count, sum",
        ),
        ({"entity": "cart", "functions": ["count"], "windows": ["1d"]}, "entity: 'cart' cannot stand here; allowed: "),
        (
            {"entity": "card", "functions": ["mean"], "column": "pay", "windows": ["1d"]},
            "column: 'pay' cannot stand here; allowed: ",
        ),
        (
            {"entity": "card", "functions": ["distinct"], "column": "paid", "windows": ["1d"]},
            "column: 'paid' cannot stand here",
        ),
        ({"entity": "id", "functions": ["count"], "windows": ["1d"]}, "entity: 'id' cannot stand here"),
        ({"entity": "y", "functions": ["count"], "windows": ["1d"]}, "entity: 'y' cannot stand here"),
        ({"entity": "card", "functions": ["mean"], "column": "y", "windows": ["1d"]}, "column: 'y' cannot stand here"),
        (
            {"entity": "card", "functions": ["positive_rate"], "windows": ["1d"], "with_event": False},
            "with_event: is false, and windows of labels end before the event anyway; leave it out",
        ),
        (
            {"entity": "card", "functions": ["positive_rate"], "windows": ["last 3 of 7d"]},
            "labels become known by time; give a length",
        ),
        ({"entity": "card", "functions": ["count"], "windows": ["4000d"]}, "reaches back more than 3650 days"),
        ({"entity": "card", "functions": ["count"], "windows": ["1d"], "offset": "0h"}, "'0h' is no duration"),
        (
            {"entity": "card", "functions": ["count"], "windows": ["last 2000 of 1d"]},
            "holds 2000 events; give at most 1000",
        ),
        ({"entity": "card", "functions": ["count"]}, "windows: is missing; give lengths such as [1h, 7d, 30d]"),
        ({"entity": "card", "functions": ["count"], "windows": ["0d"]}, "is no window; give minutes, hours"),
        ({"entity": "card", "functions": ["decayed_count"]}, "give decayed_count(half-life, such as 6h)"),
        ({"entity": "card", "functions": ["decayed_count(6)"]}, "'6' is no duration"),
        ({"entity": [], "functions": ["count"], "windows": ["1d"]}, "entity: has 0 columns; give one to three"),
        (
            {"ratio": "paid", "to": "f_mean"},
            "to: 'f_mean' is no mean of 'amount' that a line above declares; these are: none",
        ),
        ({"calendar": ["hour"], "windows": ["1d"]}, "'windows' does not go with 'calendar'"),
        ({"windows": ["1d"]}, "a line has one of preset, entity, ratio, difference, zscore, calendar, this one none"),
    ],
)
def test_a_wrong_line_is_refused_with_what_to_write(line: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError) as refused:
        parse(BASE | {"features": [line]})

    assert "features.0" in str(refused.value)
    assert says in str(refused.value)


def test_a_name_that_two_lines_declare_is_refused() -> None:
    line = {"entity": "card", "functions": ["count"], "windows": ["1d"]}

    with pytest.raises(UserError, match=r"features.1: the name 'card_count_1d' is taken; give the line another 'name'"):
        parse(BASE | {"features": [line, line]})


def test_a_decayed_count_halves_with_each_half_life() -> None:
    assert STEPS == 2 * HALF_LIVES
    table = events(0, 2, 1).assign(customer="ann")
    table["event_time"] = np.array([START, START + 6 * HOUR], "datetime64[us]")
    line = {"entity": "card", "functions": ["decayed_count(6h)"]}
    config = configured([line, line | {"offset": "3h"}])

    features = core.features(table, config, CPU)
    assert features["f0_decayed_count_6h"].tolist() == [1.0, 1.5]
    assert features["f1_decayed_count_6h_before_3h"].tolist() == [0.0, math.sqrt(0.5)]


def test_a_mean_of_amounts_is_referred_to_without_the_event_itself() -> None:
    table = events(0, 3, 1).assign(customer="ann", amount=[1.0, 3.0, 8.0])
    mean = {"entity": "card", "functions": ["mean"], "column": "paid", "windows": ["30d"]}
    config = parse(BASE | {"features": [mean, {"ratio": "paid", "to": "card_mean_paid_30d"}]})
    assert isinstance(config, TabularConfig)

    ratios = core.features(table, config, CPU)["card_mean_paid_30d_ratio"]

    assert math.isnan(ratios[0])
    assert ratios[1:].tolist() == [3.0, 4.0]
    assert declarations.nullable_inputs(config.feature_spec, []) == ["card_mean_paid_30d_ratio"]


def test_a_label_counts_only_after_its_delay() -> None:
    line = {"entity": "card", "functions": ["positive_count"], "windows": ["7d"]}
    table = events(0, 3, 1).assign(customer="ann", label=pd.array([1, 0, 0], dtype="Int8"))
    table["event_time"] = np.array([START, START + 23 * HOUR, START + 25 * HOUR], "datetime64[us]")
    config = configured([line])
    assert config.label_delay_days == 1

    assert core.features(table, config, CPU)["f0_positive_count_7d"].tolist() == [0.0, 0.0, 1.0]
