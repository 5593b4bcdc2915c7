"""A search for events: what is found, what is stated of it, and where it ends."""

import json
import subprocess
from datetime import date
from pathlib import Path

import pytest

from nightshift.runtime.errors import UserError
from nightshift_testkit.processes import engine
from pipelines.environments import local
from pipelines.event_search import EventQuery, find_events
from pipelines.workspace import Workspace
from tests.pipelines.ui.conftest import write_data, write_run


@pytest.fixture
def searched(tmp_path: Path) -> Workspace:
    write_data(tmp_path, write_run(tmp_path, "fraud-1"), "bob")
    return Workspace(local(tmp_path))


def test_events_come_with_the_scores_of_each_version(searched: Workspace) -> None:
    events = find_events(searched, "fraud", EventQuery(value="ann"))

    assert [event.event_id for event in events.events] == ["1", "3"]
    assert events.events[1].scores == [{"score": "0.9", "flagged": "True", "model_version": "3"}]
    assert events.events[1].features == {}
    assert (events.column, events.rows, events.older) == ("customer", 3, None)


def test_a_day_whose_file_is_gone_is_stated(searched: Workspace) -> None:
    assert find_events(searched, "fraud", EventQuery(value="ann")).missing == [date(2018, 7, 31)]


def test_a_search_that_ends_says_from_which_day_it_goes_on(searched: Workspace) -> None:
    newest = find_events(searched, "fraud", EventQuery(value="ann", days=1))
    older = find_events(searched, "fraud", EventQuery(value="ann", last=newest.older))

    assert (newest.events, newest.older) == ([], date(2018, 7, 30))
    assert len(older.events) == 2


@pytest.mark.parametrize("value", ["x", "9" * 30, "1.5", ""])
def test_a_text_that_is_no_number_is_no_id_of_numbers(value: str, searched: Workspace) -> None:
    assert find_events(searched, "fraud", EventQuery("event_id", value)).events == []


def test_a_column_without_identifiers_is_refused(searched: Workspace) -> None:
    with pytest.raises(UserError, match="column is 'amount', not one of event_id, customer, terminal"):
        find_events(searched, "fraud", EventQuery("amount", "1.5"))


@pytest.mark.slow
def test_the_command_prints_what_was_searched(searched: Workspace) -> None:
    folder = str(Path(searched.state.runs).parent)
    words = ["events", "3", "--column", "event_id", "--features", "--workspace", folder]

    text = subprocess.run(engine(*words), check=True, capture_output=True, text=True).stdout
    document = json.loads(subprocess.run(engine(*words, "--json"), check=True, capture_output=True).stdout)

    assert "version 3" in text
    assert "1 events in 2 days, 2018-07-30 to 2018-07-31, 3 rows; the files of 1 days are gone" in text
    assert document["events"][0]["features"] == {"customer_count_7d": "6"}
