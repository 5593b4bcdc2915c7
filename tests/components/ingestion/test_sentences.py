"""Simulated texts."""

from datetime import date

import pandas as pd

from nightshift.config import parse
from nightshift.config.columns import Holds
from nightshift.config.texts import TextSimulator
from nightshift.tasks.texts import simulator as sentences
from tests.components.pictures import ingest
from tests.nightshift.config.test_classes import text

DAY = date(2024, 3, 10)
WORLD = TextSimulator(items=200)


def words(frame: pd.DataFrame) -> pd.Series:
    return frame["text"].str.split().explode()


def test_a_day_is_the_same_alone_and_differs_from_others():
    pd.testing.assert_frame_equal(
        sentences.SimulationTask().day(WORLD, DAY), sentences.SimulationTask().day(WORLD, DAY)
    )
    assert set(sentences.SimulationTask().day(WORLD, DAY)["text"]).isdisjoint(
        sentences.SimulationTask().day(WORLD, date(2024, 3, 11))["text"]
    )


def test_topics_have_words_of_their_own():
    frame = sentences.SimulationTask().day(WORLD, DAY)
    finance, sports = (set(words(frame[frame["label"] == topic])) for topic in ("finance", "sports"))
    assert len(finance & sports) < 0.8 * len(finance)
    assert 12 < frame["text"].str.split().str.len().mean() < 16


def test_what_is_to_drift_drifts_from_its_day_on():
    fields = {"drift_from": "2024-03-10", "length_factor": 2.0, "new_words": 0.3, "new_class": 0.2}
    world = TextSimulator(items=200, **fields)
    before, after = sentences.SimulationTask().day(world, date(2024, 3, 9)), sentences.SimulationTask().day(world, DAY)
    assert len(words(after)) > 1.5 * len(words(before))
    unseen = ~words(after).isin(words(before))
    assert unseen.mean() > 0.25
    assert 20 <= (after["label"] == "weather").sum() <= 60
    assert "weather" not in set(before["label"])


def test_spoiled_texts_are_quarantined_each_with_its_reason(tmp_path):
    columns = {"event_id": "text_id", "event_time": "time", "text": "text", "group": "author", "label": "label"}
    raw = text(
        columns=columns,
        simulator={"items": 60, "corrupt_share": 0.2},
        quarantine={"max_share": 0.1, "max_label_share": 0.5},
    )
    raw["task"] = raw["task"] | {"classes": list(sentences.TOPICS)}
    table = ingest(tmp_path, raw)
    assert table.details["quarantined"] == dict.fromkeys(
        ["binary", "duplicate_content", "empty", "invalid_utf8", "unknown_label", "unparsable_time"], 14
    )
    rows = table.read([DAY])
    assert list(rows) == ["event_id", "event_time", "text", "group", "label"]
    assert parse(raw).columns.holding(Holds.TEXT) == {"text": "text"}
