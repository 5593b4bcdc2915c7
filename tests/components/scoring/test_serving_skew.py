"""What the endpoint has answered, by the log that it writes, beside a day's scores."""

from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd

from components.scoring.serving_skew import ServingSkew, compare
from nightshift.serving.answers import ScoredItem
from nightshift.serving.prediction_log import PredictionLog, _LoggedRequest
from nightshift.tabular.online.event import Event

DAY = date(2024, 3, 20)
MIDNIGHT = pd.Timestamp(DAY)


def scored(*scores: float) -> pd.DataFrame:
    """Events 1, 2, ..., a minute each."""
    times = [MIDNIGHT + pd.Timedelta(minutes=number) for number in range(1, len(scores) + 1)]
    rows = {"event_id": range(1, len(scores) + 1), "event_time": pd.Series(times, dtype="datetime64[us]")}
    return pd.DataFrame(rows | {"score": np.array(scores, np.float32)})


def event(number: int) -> Event:
    return Event(number, (MIDNIGHT + pd.Timedelta(minutes=number)).value // 1000)


def answer(
    folder: Path, at: str, version: int, *events: Event, score: float = 0.5, items: tuple[ScoredItem, ...] = ()
) -> None:
    """Log an answer as the server does, at some time."""
    scores = np.full(len(events or items) or 1, score, np.float32)
    moment = pd.Timestamp(at).value
    PredictionLog(str(folder))._write([_LoggedRequest(moment, "request", version, 0.5, scores, events, items)])


def test_an_endpoint_without_a_log_of_the_day_has_nothing_to_compare(tmp_path):
    answer(tmp_path, "2024-03-18 12:00", 3, event(1))
    nothing = ServingSkew(events=1, answered=0, compared=0, differing=0, largest=0.0)
    assert compare(str(tmp_path), DAY, scored(0.5), "3") == nothing
    assert compare(str(tmp_path / "none"), DAY, scored(0.5), "3") == nothing
    assert nothing.sentences == []


def test_events_that_were_answered_on_the_day_or_the_next_are_known_again(tmp_path):
    answer(tmp_path, "2024-03-20 00:01", 3, event(1), event(2))
    answer(tmp_path, "2024-03-21 00:01", 3, event(3))
    answer(tmp_path, "2024-03-20 00:05", 2, event(4), score=0.9)  # by the version before
    answer(tmp_path, "2024-03-20 00:06", 3)  # features, which are no event
    answer(tmp_path, "2024-03-20 00:07", 3, event(99))  # which the lake does not have

    skew = compare(str(tmp_path), DAY, scored(0.5, 0.5, 0.5, 0.5, 0.5), "3")

    assert skew == ServingSkew(events=5, answered=4, compared=3, differing=0, largest=0.0)
    assert skew.sentences == [
        "The endpoint has answered 4 of 5, 3 by this version.",
        "Each of these had the same score when it was answered.",
    ]


def test_a_score_that_was_another_one_is_counted_by_its_last_answer(tmp_path):
    answer(tmp_path, "2024-03-20 00:03", 3, event(1), score=0.7)
    answer(tmp_path, "2024-03-20 00:02", 3, event(1), score=0.1)
    answer(tmp_path, "2024-03-20 00:02", 3, event(2), score=0.5 + 1e-7)

    skew = compare(str(tmp_path), DAY, scored(0.5, 0.5), "3")

    assert (skew.answered, skew.compared, skew.differing) == (2, 2, 1)
    assert skew.largest == np.float32(0.7).astype(float) - 0.5
    assert "1 of these had another score when they were answered, by 0.2000 at most" in skew.sentences[1]


def test_an_event_of_another_time_with_the_same_id_is_another_event(tmp_path):
    answer(tmp_path, "2024-03-20 12:00", 3, Event(1, event(7).time))
    skew = compare(str(tmp_path), DAY, scored(0.5), "3")
    assert skew == ServingSkew(events=1, answered=0, compared=0, differing=0, largest=0.0)


def test_images_and_texts_are_known_by_what_the_network_sees_of_them(tmp_path):
    answer(
        tmp_path, "2024-03-20 12:00", 3, items=(ScoredItem(None, "cat", "aa"), ScoredItem("x", "dog", "bb")), score=0.75
    )
    rows = scored(0.75, 0.5, 0.75).assign(content=["aa", "bb", "cc"])
    skew = compare(str(tmp_path), DAY, rows, "3")
    assert skew == ServingSkew(events=3, answered=2, compared=2, differing=1, largest=0.25)
