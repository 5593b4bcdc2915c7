"""Raw events, as a client sends them."""

import math
import re
from datetime import date, datetime, timedelta, timezone

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nightshift.contracts.online import Events
from nightshift.runtime.errors import UserError
from nightshift.tabular.online.event import Event, EventParser, moment
from nightshift.tasks import columns as ingestion

COLUMNS = {"event_id": "tx", "event_time": "at", "customer": "card", "terminal": "shop", "amount": "eur"}
EVENTS = Events(
    columns=COLUMNS, integers=["event_id", "terminal"], numeric=["km"], categorical=["channel"], timezone="UTC"
)
RAW = {"tx": 7, "at": "2024-03-01T00:00:01.000002Z", "card": "c-1", "shop": 3, "eur": 12.5, "km": 4, "channel": "web"}
TIME = 19_783 * 86_400_000_000 + 1_000_002


def test_an_event_is_read_under_the_users_names():
    assert EventParser(EVENTS).read(RAW) == Event(7, TIME, "c-1", 3, 12.5, (4.0,))
    assert EventParser(EVENTS).read(RAW | {"card": 12, "unknown": None}).customer == "12"


def test_a_use_case_with_an_id_and_a_time_only_needs_no_more():
    short = EVENTS.model_copy(update={"columns": {"event_id": "tx", "event_time": "at"}, "numeric": []})
    assert EventParser(short).read({"tx": 7, "at": "2024-03-01T00:00:01.000002"}) == Event(7, TIME)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"tx": "007"}, "tx is '007'; give a whole number"),
        ({"tx": "1_0"}, "tx is '1_0'; give a whole number"),
        ({"tx": [7]}, "tx is [7]; give a whole number"),
        ({"card": 2.0**53}, "card is 9007199254740992.0; give text"),
        ({"tx": True}, "tx is True; give a whole number"),
        ({"tx": 2**63}, "tx is 9223372036854775808; give a whole number of at most 63 bits"),
        ({"card": ""}, "card is ''; give text that is not empty"),
        ({"card": None}, "card is None; give text"),
        ({"at": "yesterday"}, "at is 'yesterday'; give ISO 8601 text"),
        ({"at": 1709251200}, "at is 1709251200; give ISO 8601 text"),
        ({"eur": -0.01}, "eur is -0.01; an amount is not negative"),
        ({"eur": float("nan")}, "eur is nan; give a finite number"),
        ({"eur": 10**400}, "give a finite number"),
        ({"km": "1_000"}, "km is '1_000'; give a finite number"),
        ({"km": "4"}, "km is '4'; give a finite number"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_value_and_what_is_allowed(change, says):
    with pytest.raises(UserError, match=re.escape(says)):
        EventParser(EVENTS).read(RAW | change)


def test_null_is_a_missing_number_of_a_nullable_column_and_of_no_other():
    nullable = EventParser(EVENTS.model_copy(update={"numeric": ["km", "age"], "nullable": ["age"]}))
    distance, age = nullable.read(RAW | {"age": None}).numeric
    assert (distance, math.isnan(age)) == (4.0, True)
    for change, complaint in (
        ({"km": None, "age": 3}, "km is None; give a finite number"),
        ({"age": "x"}, "age is 'x'; give a finite number or null"),
        ({}, "age: missing; an event has"),
    ):
        with pytest.raises(UserError, match=complaint):
            nullable.read(RAW | change)


def test_an_amount_below_zero_is_one_where_the_config_allows_it():
    assert EventParser(EVENTS.model_copy(update={"negative_amounts": True})).read(RAW | {"eur": -7.5}).amount == -7.5


@pytest.mark.parametrize("name", [name for name in RAW if name != "channel"])
def test_a_missing_column_is_named_beside_those_that_an_event_has(name):
    with pytest.raises(UserError, match=f"{name}: missing; an event has tx, at, card, shop, eur, km, channel"):
        EventParser(EVENTS).read({key: value for key, value in RAW.items() if key != name})


def test_a_misspelled_column_is_named_beside_the_one_that_is_missing():
    with pytest.raises(UserError, match="eur: missing, and 'eru' is unknown; an event has"):
        EventParser(EVENTS).read({"eru" if key == "eur" else key: value for key, value in RAW.items()})


def test_a_category_is_text_and_nothing_is_one_too():
    read = EventParser(EVENTS).categories
    assert [read({"channel": value}) for value in ("web", None, 7)] == [{"channel": text} for text in ("web", "", "7")]


def test_an_id_is_the_same_in_every_spelling():
    read = [EventParser(EVENTS).read(RAW | {"tx": value, "card": value}) for value in (28, 28.0, "28", "28.0", " 28 ")]
    assert {(event.event_id, event.customer) for event in read} == {(28, "28")}


@pytest.mark.parametrize("value", ["1_0", "\uff11", 2, "", None, [1]])
def test_what_is_neither_0_nor_1_is_no_label(value):
    with pytest.raises(UserError, match="give 0 or 1"):
        EventParser(EVENTS).label(RAW | {"label": value})
    assert [EventParser(EVENTS).label(RAW | {"label": one})[2] for one in (1, 1.0, "1", True, "false")] == [
        1,
        1,
        1,
        1,
        0,
    ]


VALUES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4)
SPELLED = st.sampled_from(["28", "28.0", "28.00", "007", "-0", "1.10", "9007199254740993.0", "1.8e+16", "TRUE", " x "])


@given(VALUES | SPELLED)
def test_a_category_is_the_one_that_ingestion_writes_or_refused_by_both(value):
    column = pd.Series([value], dtype=str if isinstance(value, str) else object)
    written = ingestion.canonical(column)[0]
    try:
        assert EventParser(EVENTS).categories({"channel": value}) == {"channel": written}
    except UserError:
        assert written is pd.NA


ZONES = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Apia"])
DAYS = st.dates(date(1, 1, 1)) | st.dates(date(2011, 12, 28), date(2024, 11, 5))
CHANGES = st.sampled_from(["2024-03-31", "2024-10-27", "2024-03-10", "2024-11-03", "2024-04-07", "2011-12-30"])
CLOCKS = st.builds("{:02}:{:02}:{:02}".format, st.integers(0, 24), st.integers(0, 60), st.integers(0, 60))
SHAPES = st.builds(
    "".join,
    st.tuples(
        DAYS.map(str) | CHANGES,
        st.sampled_from(["T", " ", "t", "x", ""]),
        st.sampled_from(["01:30:00", "02:30:00", "02:10"]) | CLOCKS,
        st.sampled_from(["", "", ".5", ",25", ".1234567899", "."]),
        st.sampled_from(["", "", "Z", "z", "+02", "-0330", "+05:45", " +02:00", "+2", "+24:00", "UTC"]),
    ),
)
BASIC = SHAPES.map(lambda text: text.replace("-", "", 2).replace(":", "", 2))
NO_TIMES = st.sampled_from(["now", "today", "", "NaT", "9999-12-31 23:59:59", "0000-01-01", "2024-W10-1", "2024", "17"])


@settings(max_examples=150, deadline=None)
@given(st.lists(SHAPES | BASIC | NO_TIMES | st.text(max_size=12), min_size=1, max_size=4), ZONES)
def test_a_time_is_the_one_that_ingestion_reads_or_refused_by_both(texts, zone):
    for text, expected in zip(texts, ingestion.times(pd.Series(texts, dtype=str), zone), strict=True):
        try:
            micros = moment(text, "at", zone)
        except UserError:
            assert expected is pd.NaT
        else:
            assert datetime(1970, 1, 1) + timedelta(microseconds=micros) == expected


def test_a_datetime_is_a_time_too():
    east = timezone(timedelta(hours=2))
    assert moment(datetime(2024, 3, 1, 2, 0, 1, 2, tzinfo=east), "at") == TIME
