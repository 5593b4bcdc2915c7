"""Raw events, as a client sends them."""

from datetime import datetime, timedelta, timezone

import pandas as pd
import pytest

from components.common.contracts.online import Events
from components.common.errors import UserError
from components.ingestion import columns as ingestion
from components.tabular.online.event import Event, Reader, moment

COLUMNS = {"event_id": "tx", "event_time": "at", "customer": "card", "terminal": "shop", "amount": "eur"}
EVENTS = Events(
    columns=COLUMNS, integers=["event_id", "terminal"], numeric=["km"], categorical=["channel"], timezone="UTC"
)
RAW = {"tx": 7, "at": "2024-03-01T00:00:01.000002Z", "card": "c-1", "shop": 3, "eur": 12.5, "km": 4, "channel": "web"}
TIME = 19_783 * 86_400_000_000 + 1_000_002


def test_an_event_is_read_under_the_users_names():
    assert Reader(EVENTS).read(RAW) == Event(7, TIME, "c-1", 3, 12.5, (4.0,))
    assert Reader(EVENTS).read(RAW | {"card": 12, "unknown": None}).customer == "12"


def test_a_use_case_with_an_id_and_a_time_only_needs_no_more():
    short = EVENTS.model_copy(update={"columns": {"event_id": "tx", "event_time": "at"}, "numeric": []})
    assert Reader(short).read({"tx": 7, "at": "2024-03-01T00:00:01.000002"}) == Event(7, TIME)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"tx": "7"}, "tx is '7'; give a whole number"),
        ({"tx": True}, "tx is True; give a whole number"),
        ({"tx": 2**63}, "tx is 9223372036854775808; give a whole number of at most 63 bits"),
        ({"card": ""}, "card is ''; give text that is not empty"),
        ({"card": None}, "card is None; give text"),
        ({"at": "yesterday"}, "at is 'yesterday'; give ISO 8601 text"),
        ({"at": 1709251200}, "at is 1709251200; give ISO 8601 text"),
        ({"eur": -0.01}, "eur is -0.01; an amount is not negative"),
        ({"eur": float("nan")}, "eur is nan; give a finite number"),
        ({"eur": 10**400}, "give a finite number"),
        ({"km": "4"}, "km is '4'; give a finite number"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_value_and_what_is_allowed(change, says):
    with pytest.raises(UserError, match=says.replace("(", r"\(")):
        Reader(EVENTS).read(RAW | change)


@pytest.mark.parametrize("name", [name for name in RAW if name != "channel"])
def test_a_missing_column_is_named_beside_those_that_an_event_has(name):
    with pytest.raises(UserError, match=f"{name}: missing; an event has tx, at, card, shop, eur, km, channel"):
        Reader(EVENTS).read({key: value for key, value in RAW.items() if key != name})


def test_a_category_is_text_and_nothing_is_one_too():
    read = Reader(EVENTS).categories
    assert [read({"channel": value}) for value in ("web", None, 7)] == [{"channel": text} for text in ("web", "", "7")]


@pytest.mark.parametrize("zone", ["UTC", "Europe/Paris", "America/New_York", "Asia/Kolkata"])
@pytest.mark.parametrize(
    "text",
    [
        "2024-07-01T12:00:00",
        "2024-03-31T02:30:00",  # left out in Paris
        "2024-10-27 02:30:00.000001",  # twice in Paris
        "2024-11-03T01:30:00",  # twice in New York
        "2024-03-01T00:00:00+05:30",
        "1969-12-31T23:59:59.999999Z",
        "2024-03-01",
    ],
)
def test_a_time_is_the_one_that_ingestion_reads(text, zone):
    expected = ingestion.times(pd.Series([text]), zone)
    assert moment(text, "at", zone) == expected.astype("int64")[0]


def test_a_datetime_is_a_time_too():
    east = timezone(timedelta(hours=2))
    assert moment(datetime(2024, 3, 1, 2, 0, 1, 2, tzinfo=east), "at") == TIME
