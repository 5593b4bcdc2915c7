"""Which features a table suggests: of whose events repeat, which pairs do, and how finely times are known."""

from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
import pytest

from nightshift.data.guessing.feature_proposal import EventTable, Line, list_lines

ROWS = 4000
LENGTHS = ["1d", "7d", "30d"]


def propose(**columns: Any) -> list[Line]:
    """Propose features of events of 80 days; a column that is None is left out."""
    rng = np.random.default_rng(7)
    customer = rng.integers(0, 200, ROWS)
    events = {
        "event_time": pd.Timestamp(2025, 1, 1) + pd.to_timedelta(np.sort(rng.integers(0, 80 * 1440, ROWS)), "min"),
        "customer": customer,
        "terminal": rng.integers(0, 100, ROWS),
        "amount": rng.gamma(2, 20, ROWS).round(2),
        "kind": rng.choice(["food", "fuel", "toys", "rent"], ROWS),
        "gender": np.array(["f", "m", "x"])[customer % 3],
    }
    frame = pd.DataFrame({name: values for name, values in (events | columns).items() if values is not None})
    return list_lines(EventTable(frame, 2, LENGTHS[-1], frozenset(frame)), LENGTHS)


def list_functions(lines: list[Line]) -> set[str]:
    return {*chain(*(line.get("functions", []) for line in lines))}


def list_entities(lines: list[Line]) -> list[Any]:
    return [line["entity"] for line in lines if "entity" in line]


def test_each_family_is_proposed_that_the_columns_allow() -> None:
    lines = propose()

    assert lines[0] == {"calendar": ["hour", "day_of_week", "is_weekend", "is_night"]}
    assert {"count", "mean", "zscore", "decayed_count(6h)", "positive_rate", "distinct"} <= list_functions(lines)
    assert lines[1]["windows"] == ["1h", "6h", *LENGTHS]
    assert len(lines) <= 12


def test_a_pair_is_proposed_that_repeats_and_says_more_than_its_entity() -> None:
    pairs = [entity for entity in list_entities(propose()) if isinstance(entity, list)]

    assert ["customer", "kind"] in pairs
    assert ["customer", "gender"] not in pairs, "a customer has one gender"
    assert ["customer", "terminal"] in pairs
    others = list_entities(propose(terminal=np.arange(ROWS)))
    assert ["customer", "terminal"] not in others, "nobody comes to a terminal twice"


def test_times_that_are_days_give_no_hours_and_no_seconds() -> None:
    days = pd.Timestamp(2025, 1, 1) + pd.to_timedelta(np.arange(ROWS) // 50, "D")

    lines = propose(event_time=days)

    assert lines[0] == {"calendar": ["day_of_week", "is_weekend"]}
    windows = {*chain(*(line.get("windows", []) for line in lines))}
    assert windows == {*LENGTHS}
    assert not any("seconds" in name or "decayed" in name for name in list_functions(lines))


def test_an_entity_without_repeats_has_no_features() -> None:
    lines = propose(customer=np.arange(ROWS), terminal=None)

    assert list_entities(lines) == []


@pytest.mark.parametrize(("scale", "is_safe"), [(1, True), (10**9, False)])
def test_squares_are_summed_of_amounts_that_allow_it(scale: int, is_safe: bool) -> None:
    lines = propose(amount=np.full(ROWS, 12.5) * scale)

    assert ("zscore" in list_functions(lines)) is is_safe
    assert "ratio" in list_functions(lines)


def test_a_column_of_the_table_keeps_its_name() -> None:
    assert "hour" not in propose(hour=np.arange(ROWS) % 24)[0]["calendar"]


def test_a_table_without_amounts_and_entities_has_the_calendar() -> None:
    assert propose(amount=None, customer=None, terminal=None) == propose()[:1]
    assert "mean" not in list_functions(propose(amount=None))
