"""Rows of a task without labels: nothing about labels is asked of its config, read, judged, counted or shown."""

from datetime import date, timedelta
from typing import Any

import pandas as pd
import pytest
from pydantic import ValidationError

from components.ingestion import core, section
from components.ingestion.tally import Totals
from nightshift.config import Config
from nightshift.config.tabular import TabularEventLimits
from nightshift.contracts.section import TableBlock
from nightshift.contracts.tables import Partition
from nightshift.data import splits

DAY = date(2024, 3, 10)
DAYS = [DAY, DAY + timedelta(days=1)]
CONFIG = {
    "name": "rows",
    "source": {"files": "{date}.parquet"},
    "columns": {"event_id": "id", "event_time": "time"},
    "protocol": {"train_days": 3, "test_days": 2},
    "task": {"kind": "tabular", "select_by": "loss", "candidates": {"only": {"kind": "any"}}},
}


class RowConfig(Config):
    limits: TabularEventLimits = TabularEventLimits()


def parsed(**changes: Any) -> RowConfig:
    return RowConfig.parse_value(CONFIG | changes)


def raw(day: date) -> pd.DataFrame:
    """Three good rows and one without an id."""
    ids = [f"{day}-{number}" for number in range(3)]
    return pd.DataFrame({"id": [*ids, None], "time": f"{day}T12:00:00"})


@pytest.mark.parametrize("labels_due", [True, False])
def test_good_rows_have_no_label_however_old_they_are(labels_due: bool) -> None:
    split = core.split(raw(DAY), parsed(), DAY, labels_due)
    assert [*split.good] == ["event_id", "event_time"]
    assert (split.rejected_rows, split.labels) == ({"missing_key": 1}, {"": 4})


def test_days_that_are_read_at_once_are_what_each_is_alone() -> None:
    together = core.split_batch({day: raw(day) for day in DAYS}, parsed(), DAY)
    assert together is not None
    for day in DAYS:
        alone = core.split(raw(day), parsed(), day, labels_due=True)
        assert together[day].good.equals(alone.good)
        assert together[day].bad.equals(alone.bad)


def test_what_is_left_out_is_shown_by_reason_alone() -> None:
    details = {"labels": {"": 4}, "quarantined_labels": {"missing_key": {"": 1}}, "source_sha256": ""}
    part = Partition(str(DAY), "", 3, "", details)
    shown = section.build("", [part], Totals.from_partitions([part]))
    (counts,) = [block for block in shown.blocks if isinstance(block, TableBlock)]
    assert [column.title for column in counts.columns] == ["Reason", "Rows", "Share of such rows read"]
    assert [row.cells for row in counts.rows] == [["missing_key", 1, 0.25]]
    assert shown.outcome
    assert shown.outcome.reasons[1:] == ["1 of 4 rows (25.00%) are left out, 1 of them by missing_key."]


def test_there_is_no_delay_so_that_the_newest_days_are_tested_on() -> None:
    plan = splits.plan(parsed(), DAY)
    assert plan.labels_due == plan.test.test.last == DAY
    assert plan.test.train.last == plan.test.test.first - timedelta(days=1)
    assert not [key for _, key in splits.lookback(parsed()) if key == "label_delay_days"]


@pytest.mark.parametrize("changes", [{"label_delay_days": 7}, {"columns": CONFIG["columns"] | {"label": "fraud"}}])
def test_a_config_that_speaks_of_labels_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=next(iter(changes))):
        parsed(**changes)
