"""Shards: mapped into memory, one after the other."""

from datetime import date

import numpy as np
import pandas as pd
import pytest

from nightshift.contracts import tables
from nightshift.data.splits import Days, Fold
from nightshift.items.shards import ItemTable, Shards, labels, map_shard, shard_uri
from nightshift.runtime.errors import UserError

DAYS = [date(2024, 3, day) for day in range(1, 5)]


@pytest.fixture
def table(tmp_path):
    """Four days of three rows; `group` g1 .. g4, a row of the last day being of g1."""
    parts = []
    for number, day in enumerate(DAYS):
        uri = str(tmp_path / f"{day}.parquet")
        rows = pd.DataFrame(
            {
                "event_id": np.arange(3) + 3 * number,
                "event_time": pd.date_range(day, periods=3, freq="h", unit="us"),
                "group": [f"g{number + 1}", f"g{number + 1}", "g1" if number == 3 else f"g{number + 1}"],
                "label": ["a", "b", "a"],
                "content": [f"{number}{row}" for row in range(3)],
            }
        )
        np.save(shard_uri(uri), np.full((3, 2), 10 * number) + np.arange(3)[:, None])
        parts.append(tables.write_partition(uri, day, rows, {}))
    return tables.Table("features", parts)


def test_rows_come_in_the_order_asked_for_from_whatever_day(table):
    shards = Shards.map_days(table, DAYS)
    assert len(shards) == 12
    assert shards.take(np.array([11, 0, 4, 3]))[:, 0].tolist() == [32, 0, 11, 10]
    assert isinstance(shards.arrays[0], np.memmap)


def test_test_rows_of_a_group_or_content_that_training_has_seen_are_left_out(table):
    items = ItemTable.read(table, Days(DAYS[0], DAYS[-1]))
    items.rows.loc[9, "content"] = "10"  # a picture of the second day, again
    fold = Fold(Days(DAYS[0], DAYS[1]), Days(DAYS[2], DAYS[3]), 0)
    seen, unseen = items.training_rows(fold), items.holdout(fold)
    assert seen["event_id"].tolist() == [0, 1, 2, 3, 4, 5]
    assert unseen["event_id"].tolist() == [6, 7, 8, 10]
    assert items.inputs(unseen)[:, 0].tolist() == [20, 21, 22, 31]


def test_a_label_that_is_due_and_missing_is_said(table):
    items = ItemTable.read(table, Days(DAYS[0], DAYS[-1]))
    items.rows.loc[6, "label"] = None
    with pytest.raises(UserError, match="1 rows have no label although it is due"):
        items.holdout(Fold(Days(DAYS[0], DAYS[1]), Days(DAYS[2], DAYS[3]), 0))


def test_a_shard_of_another_length_is_refused(table):
    part = table.partitions[0]
    np.save(shard_uri(part.uri), np.zeros((2, 2)))
    with pytest.raises(UserError, match=r"has 2 rows, its partition 3; delete .*\.json and run again"):
        map_shard(part)


def test_a_class_has_a_number_and_what_is_none_has_not():
    assert labels(pd.DataFrame({"label": ["b", "a", None]}), ["a", "b"]).tolist() == [1, 0, -1]
