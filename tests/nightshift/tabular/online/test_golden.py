"""A published day through the online state."""

from datetime import date, timedelta

import pandas as pd
import pytest
import yaml

from nightshift.config import parse
from nightshift.data.splits import Days, buffer_days, rows_of
from nightshift.tabular.online import skew, snapshot
from nightshift.tasks.tabular.features import core
from tests.components.features.test_golden import CANONICAL, HANDBOOK, ROOT, read
from tests.nightshift.tabular.online.streams import CPU


def replayed(events: pd.DataFrame, config, day: date):
    """Events of the day and of the days that it looks back on, through the batch kernel and through the state."""
    offline = rows_of(core.features(events, config, CPU), Days(day, day)).reset_index(drop=True)
    before = Days(day - timedelta(days=buffer_days(config) + 1), day - timedelta(days=1))
    base = snapshot.in_memory(config, before, rows_of(events, before).reset_index(drop=True))
    return skew.replay(base, rows_of(events, Days(day, day)).reset_index(drop=True), offline, config)


@pytest.mark.skipif(not HANDBOOK.exists(), reason="needs the published data in ../shared/data/handbook")
def test_a_published_day_has_the_same_features_online():
    config = parse(yaml.safe_load((ROOT / "pipelines/configs/handbook.yaml").read_text()))
    day = date(2018, 8, 14)
    raw = read("raw", Days(day - timedelta(days=buffer_days(config) + 1), day))
    events = raw[list(CANONICAL)].rename(columns=CANONICAL).astype({"label": "Int8"})
    report = replayed(events.sort_values(["event_time", "event_id"], ignore_index=True), config, day)
    assert (report.rows, report.differing, report.largest) == (9_564, 0, 0.0)
