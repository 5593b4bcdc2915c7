"""Nights and weekends are those of the config's zone, in batch and online alike."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightshift.config import Config, parse
from nightshift.data.times import EPOCH, EPOCH_UTC, MICROSECOND
from nightshift.tabular import windows
from nightshift.tabular.online.event import Event
from nightshift.tabular.online.inputs import EventInputs
from tests.nightshift.tabular.online import streams

ZONES = ["UTC", "Europe/Berlin", "America/Los_Angeles", "Asia/Tokyo", "Asia/Kathmandu", "Australia/Lord_Howe"]
CHANGES = [
    datetime(2025, month, day, tzinfo=UTC) for month, day in ((3, 9), (3, 30), (4, 5), (10, 4), (10, 26), (11, 2))
]
NEAR_CHANGES = st.tuples(st.sampled_from(CHANGES), st.integers(-36 * 60, 36 * 60)).map(
    lambda drawn: drawn[0] + timedelta(minutes=drawn[1])
)
MOMENTS = NEAR_CHANGES | st.datetimes(datetime(1990, 1, 1), datetime(2060, 1, 1), timezones=st.just(UTC))


def in_zone(zone: str) -> Config:
    chosen = streams.config(roles=(), windows=())
    return parse(chosen.model_dump(exclude_unset=True) | {"source": {"table": "t.csv", "timezone": zone}})


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(ZONES), st.lists(MOMENTS, min_size=1, max_size=8))
def test_a_night_and_a_weekend_are_by_the_zone_s_clock_in_batch_and_online(zone: str, moments: list[datetime]) -> None:
    chosen = in_zone(zone)
    micros = sorted((moment - EPOCH_UTC) // MICROSECOND for moment in moments)
    local = [moment.astimezone(ZoneInfo(zone)) for moment in sorted(moments)]
    expected = [[float(time.weekday() >= 5), float(time.hour < 7)] for time in local]
    online = EventInputs(chosen.feature_spec, {})
    events = [streams.Labeled(number, time, None, None, 0.0, (), None) for number, time in enumerate(micros)]

    assert streams.offline(events, chosen) == expected
    assert [online.row(Event(number, time), []) for number, time in enumerate(micros)] == expected


@pytest.mark.parametrize("year", [1, 9999])
def test_at_the_ends_of_the_calendar_a_zone_s_clock_runs_on(year: int) -> None:
    noon = datetime(1, 1, 1, 12) if year == 1 else datetime(9999, 12, 31, 12)
    micros = (noon - EPOCH) // MICROSECOND

    walls = windows.wall_times(np.array([micros]), "Pacific/Kiritimati", np)

    assert abs(int(walls[0]) - micros) < windows.DAY
