"""Days that are read at once: what comes out is what comes out of each day alone."""

import json
from datetime import date, timedelta

import numpy as np
import pandas as pd
import pytest

from components.ingestion import core
from components.ingestion.sources.coverage import require_days
from components.ingestion.sources.files import OneTable
from nightshift import storage
from nightshift.config import parse
from nightshift.config.tabular import TabularSimulator
from nightshift.contracts import tables
from nightshift.data.splits import Days
from nightshift.tasks.tabular import simulator

from .conftest import CONFIG

FIRST = date(2024, 3, 9)
DAYS = [FIRST + timedelta(days=i) for i in range(4)]
COLUMNS = CONFIG["columns"] | {"numeric": ["rating"], "categorical": ["channel"]}
EXTENDED = parse(CONFIG | {"columns": COLUMNS})
AS_TEXT = {"texts": str, "objects": object}


def simulated(kind: str, corrupt_share: float = 0.05) -> dict[date, pd.DataFrame]:
    config = TabularSimulator(customers=60, terminals=120, corrupt_share=corrupt_share)
    frames = {day: simulator.SimulationTask().day(config, day, DAYS[-2]) for day in DAYS}
    for seed, frame in enumerate(frames.values()):
        rng = np.random.default_rng(seed)
        frame["rating"], frame["channel"] = rng.normal(size=len(frame)), rng.choice(["shop", "web", None], len(frame))
    # what is missing in a file of texts is missing, not the text "None"
    return {day: frame.astype(AS_TEXT[kind]).where(frame.notna(), None) for day, frame in frames.items()}


def alone(frames, text_ids=()):
    return {day: core.split(frame, EXTENDED, day, day <= DAYS[-2], text_ids) for day, frame in frames.items()}


def at_once(frames, text_ids=()):
    return core.split_batch(frames, EXTENDED, DAYS[-2], text_ids)


def written(folder, frame):
    return storage.write_frame(str(folder / "frame.parquet"), frame)


@pytest.mark.parametrize("kind", AS_TEXT)
@pytest.mark.parametrize("text_ids", [(), ("event_id",)])
def test_days_read_at_once_are_to_the_byte_what_each_is_alone(kind, text_ids, tmp_path):
    frames = simulated(kind)
    # the ids of one day come again on the next
    frames[DAYS[1]]["transaction_id"] = frames[DAYS[0]]["transaction_id"].reindex(frames[DAYS[1]].index, fill_value="9")
    splits, expected = at_once(frames, text_ids), alone(frames, text_ids)
    assert list(splits) == list(expected)
    for day, split in expected.items():
        assert splits[day].id_types == split.id_types
        assert (splits[day].labels, splits[day].quarantined_labels) == (split.labels, split.quarantined_labels)
        assert len(split.bad)
        for part in ("good", "bad"):
            assert written(tmp_path, getattr(splits[day], part)) == written(tmp_path, getattr(split, part))


@pytest.mark.parametrize(
    ("column", "value"),
    [("customer_id", "C7"), ("time", "soon"), ("fraud", "maybe"), ("amount", "cheap"), ("rating", None)],
)
def test_a_day_that_would_be_read_otherwise_alone_is_left_to_be_read_alone(column, value):
    frames = simulated("objects", corrupt_share=0)
    assert at_once(frames)
    frames[DAYS[1]][column] = value
    assert at_once(frames) is None


def test_labels_that_are_not_due_may_all_be_missing():
    frames = simulated("objects", corrupt_share=0)
    frames[DAYS[-1]]["fraud"] = None
    assert at_once(frames)[DAYS[-1]].good["label"].isna().all()


def test_a_table_is_read_once_for_all_of_its_days_and_every_pass(step, config, folder, days):
    config["source"] = {"table": "all.csv"}
    frames = [pd.read_parquet(folder / f"{day}.parquet") for day in days]
    pd.concat(frames).to_csv(folder / "all.csv", index=False)
    read = []

    def counted(uri: str) -> bytes:
        read.append(uri)
        return storage.read_bytes(uri)

    source = OneTable(str(folder), parse(config), counted)
    require_days(source, parse(config), Days(days[0], days[-1]))
    rows = [len(source.read(day).load()) for day in [*days, *days]]

    assert rows == [len(frame) for frame in frames] * 2
    assert read == [f"{folder}/all.csv"]
    assert step.ingest(config, folder).rows == sum(rows) / 2


def test_a_day_that_stands_out_does_not_change_what_its_neighbors_become(step, config, folder, spoil, days):
    def partitions(table: tables.Table) -> list[tuple[str, str]]:
        return [(part.date, part.sha256, json.dumps(part.details["id_types"])) for part in table.partitions]

    spoil(days[2], lambda frame: frame.assign(customer_id="C" + frame["customer_id"].astype(str)))
    by_file = partitions(step.ingest(config, folder))
    frames = [pd.read_parquet(folder / f"{day}.parquet").astype({"customer_id": str}) for day in days]
    pd.concat(frames).to_csv(folder / "all.csv", index=False)
    config["source"] = {"table": "all.csv"}
    assert partitions(step.ingest(config, folder)) == by_file
