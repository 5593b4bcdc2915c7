"""The online state's size by its formula, against what a snapshot holds; a declaration that needs too much."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from nightshift.config import parse
from nightshift.config.tabular import TabularConfig
from nightshift.runtime.errors import UserError
from nightshift.tabular.online import sizes, snapshot
from nightshift.tabular.online.sizes import EventCounts

ROWS = 3000
LINES: list[dict[str, Any]] = [
    {"entity": "customer", "functions": ["count", "zscore"], "column": "amount", "windows": ["1d", "30d"]},
    {"entity": "terminal", "functions": ["positive_rate"], "windows": ["7d"]},
    {"entity": ["customer", "kind"], "functions": ["mean"], "column": "km", "windows": ["30d"]},
    {"entity": "kind", "functions": ["distinct"], "column": "terminal", "windows": ["1d"]},
]


def configure(lines: list[dict[str, Any]], **task: Any) -> TabularConfig:
    columns = ("event_id", "event_time", "customer", "terminal", "amount", "label")
    config = parse(
        {
            "name": "tiny",
            "source": {"table": "t.csv"},
            "columns": {name: name for name in columns} | {"numeric": ["km"], "categorical": ["kind"]},
            "features": lines,
            "task": {"kind": "tabular", "candidates": {"a": {"kind": "xgboost"}}} | task,
        }
    )
    assert isinstance(config, TabularConfig)
    return config


def draw_events(whole: bool) -> pd.DataFrame:
    """Events of some customers, whose ids are whole numbers or texts."""
    rng = np.random.default_rng(3)
    ids, customers = np.arange(ROWS), rng.integers(0, 70, ROWS)
    return pd.DataFrame(
        {
            "event_id": ids if whole else ids.astype(str),
            "event_time": pd.date_range("2025-01-01", periods=ROWS, freq="17min", unit="us"),
            "customer": customers if whole else customers.astype(str),
            "terminal": rng.integers(0, 400, ROWS),
            "amount": rng.gamma(2, 20, ROWS).round(2),
            "km": rng.random(ROWS),
            "kind": rng.choice(["a", "b", "c"], ROWS),
            "label": pd.array(rng.random(ROWS) < 0.1, dtype="Int8"),
        }
    )


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("lines", [LINES[:1], LINES[1:2], LINES])
def test_the_size_is_that_of_a_snapshot(lines: list[dict[str, Any]], whole: bool) -> None:
    events, spec = draw_events(whole), configure(lines).feature_spec
    counts = EventCounts.from_frame(events, spec)

    size = sum(part.size for part in sizes.measure_entities(spec, counts)) + sizes.measure_index(counts)

    held = sum(array.nbytes for array in snapshot.arrays(events, spec).values())
    assert held == pytest.approx(size, abs=8 * 20), "cumulative sums are one longer than the events"
    assert size >= sum(part.size for part in sizes.measure_entities(spec, sizes.count_least(ROWS, spec)))


def test_more_state_than_the_limit_is_refused_with_its_largest_line() -> None:
    config = configure(LINES[:3], state_megabytes=10)
    counts = EventCounts(80_000, 0, {"customer": 10, "terminal": 10, "customer_kind": 200_000}, frozenset())

    with pytest.raises(UserError) as refused:
        sizes.require_room(config, counts)

    assert str(refused.value) == (
        "features.2: the declared features need 11 MB of online state for 80,000 events, of which customer x kind "
        "takes 7, and task.state_megabytes allows 10; give windows shorter than that of customer_count_30d, leave "
        "lines out, or set task.state_megabytes: 11"
    )
    sizes.require_room(configure(LINES[:3], state_megabytes=11), counts)


def test_an_entity_without_repeats_is_refused() -> None:
    config = configure(LINES[:2])
    events = draw_events(whole=True).assign(terminal=np.arange(ROWS))

    with pytest.raises(UserError, match=r"features.1.entity: no two of 3,000 events have the same terminal") as refused:
        sizes.require_repeats(config, EventCounts.from_frame(events, config.feature_spec))

    assert "leave the line out, or name a column whose values repeat" in str(refused.value)
    few = events.head(sizes.ENOUGH_EVENTS - 1)
    sizes.require_repeats(config, EventCounts.from_frame(few, config.feature_spec))


def test_the_line_of_a_preset_is_found() -> None:
    config = configure([{"calendar": ["hour"]}, {"preset": "payments"}])

    group = sizes.measure_entities(config.feature_spec, sizes.count_least(1, config.feature_spec))[0].group

    assert sizes.find_line(config, group) == 1
