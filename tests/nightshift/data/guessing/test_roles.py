"""What the columns of a table are for, and what only a person can say."""

import re
from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightshift.data.guessing import moments, profiles, proposal, roles
from nightshift.data.guessing.daily_counts import DailyCounts
from nightshift.data.guessing.profiles import Reading
from nightshift.data.guessing.roles import Choices, Roles
from nightshift.runtime.errors import UserError

NOW = datetime(2026, 1, 1)
ROWS = 600
RNG = np.random.default_rng(3)
LABEL = RNG.random(ROWS) < 0.2
MINUTES = np.sort(RNG.integers(0, 60 * 24 * 80, ROWS))
TIMES = pd.Series([f"{datetime(2025, 9, 1) + timedelta(minutes=int(minute)):%Y-%m-%d %H:%M}" for minute in MINUTES])
MOST = RNG.random(ROWS) < 0.7


def by_label(positive: str | None, negative: str | None) -> list[str | None]:
    return [positive if label else negative for label in LABEL]


def table(**columns: Any) -> pd.DataFrame:
    """A table of texts with an id, a time, a label, and more."""
    frame = pd.DataFrame({"order id": range(ROWS), "at": TIMES, "fraud": LABEL.astype(int)}).assign(**columns)
    return frame.astype("string").astype("str")


def assign(frame: pd.DataFrame, **choices: Any) -> Roles:
    chosen = Choices(**choices)
    table = profiles.profile(frame, Reading(",", NOW, chosen.day_first))
    return roles.assign(table.columns, chosen)


@pytest.mark.parametrize(
    ("column", "sign"),
    [
        (by_label("blocked", None), "filled in"),
        (by_label(None, "web"), "empty"),
        (np.where(LABEL & MOST, "refunded", None), "filled in"),
        (np.where(LABEL & MOST, np.nan, RNG.integers(1, 9, ROWS)), "empty"),
        (np.where(LABEL & MOST, "A", RNG.choice(["B", "C"], ROWS)), "'A'"),
        (np.where(LABEL, RNG.choice(["A", "D"], ROWS), "B"), "'A' or 'D'"),
        (np.where(LABEL, 10, 0) + RNG.random(ROWS).round(3), r"10\.[0-9]+ or more"),
    ],
)
def test_a_column_that_tells_the_outcome_is_left_out_and_asked_about(column: Any, sign: str) -> None:
    assigned = assign(table(late=column))

    shares = r"on [0-9.]+% of the positive rows and on 0\.0% of the others"
    question = rf"since it is {sign} {shares}; was it known before the outcome\? Then add it to columns\..*"
    assert re.fullmatch(question, assigned.left_out["late"])
    assert assigned.columns == {"event_id": "order id", "event_time": "at", "label": "fraud"}


def test_a_column_that_only_correlates_with_the_label_is_an_input() -> None:
    noisy = np.where(RNG.random(ROWS) < 0.9, LABEL, ~LABEL)

    assigned = assign(table(risk=noisy + RNG.random(ROWS).round(3), kind=np.where(noisy, "A", "B")))

    assert assigned.left_out == {}
    assert (assigned.columns["numeric"], assigned.columns["categorical"]) == (["risk"], ["kind"])


def test_numbers_that_name_things_are_categories_or_left_out() -> None:
    devices = np.where(RNG.random(ROWS) < 0.1, np.nan, RNG.integers(1, 6, ROWS))
    invoices = np.where(RNG.random(ROWS) < 0.1, np.nan, np.arange(ROWS) // 2)

    assigned = assign(table(**{"device id": devices, "invoice_id": invoices}))

    assert (assigned.columns.get("numeric"), assigned.columns["categorical"]) == (None, ["device id"])
    assert assigned.left_out["invoice_id"].startswith("a key with")


def test_names_and_repeated_values_say_whose_an_event_is_and_what_it_is_worth() -> None:
    shops, cards = RNG.integers(0, 40, ROWS), RNG.integers(0, 90, ROWS)
    amounts = (RNG.random(ROWS) * 50).round(3)

    assigned = assign(table(**{"Shop": [f"S{shop}" for shop in shops], "Card no.": cards, "Price": amounts}))

    named = {"customer": "Card no.", "terminal": "Shop", "amount": "Price"}
    assert assigned.columns == {"event_id": "order id", "event_time": "at", "label": "fraud"} | named
    assert assigned.decimals == 3


KEYS, SUMS = RNG.integers(10**15, 10**15 + 60, ROWS), (RNG.random(ROWS) * 50).round(2)


@pytest.mark.parametrize(
    ("customer", "terminal", "amount"),
    [
        ("cc_num", "merchant", "amt"),
        ("User", "Merchant Name", "Amount"),
        ("CUSTOMER_ID", "TERMINAL_ID", "TX_AMOUNT"),
        ("nameOrig", "nameDest", "amount_paid"),
        ("card1", "addr_merchant", "TransactionAmt"),
        ("ip", "publisher_id", "bid_price"),
        ("tailnum", "dest", "fare"),
        ("member_id", "branch", "loan_amnt"),
        ("userid", "StoreID", "UnitPrice"),
        ("passengerId", "PULocationID", "fare_amount"),
    ],
)
def test_names_that_public_tables_use_say_what_their_columns_are(customer: str, terminal: str, amount: str) -> None:
    names = {"customer": customer, "terminal": terminal, "amount": amount}
    others = {f"{customer} years": RNG.integers(1, 70, ROWS), "at_user_level": RNG.integers(1, 70, ROWS)}

    assigned = assign(table(**others, **{customer: KEYS, terminal: KEYS[::-1] % 10**6, amount: SUMS}))

    assert assigned.columns == assigned.columns | names


@pytest.mark.parametrize("share", [0.003, 0.05, 0.9])
def test_numbers_that_are_missing_stay_missing_however_many_they_are(share: float) -> None:
    holes = np.where(RNG.permutation(ROWS) < share * ROWS, np.nan, 1.5 * np.arange(ROWS))

    assigned = assign(table(weight=holes, delta=RNG.normal(size=ROWS).round(2)))

    assert (assigned.columns["numeric"], assigned.limits) == (["weight", "delta"], {"nullable": ["weight"]})
    assert any("of the numbers of 'weight' are missing; models take them as such." in note for note in assigned.notes)


def test_an_open_end_is_no_day_of_the_data() -> None:
    frame = table()
    frame.loc[5, "at"] = "9999-12-31 23:59:59"

    days = DailyCounts.from_roles(assign(frame)).span

    assert days.last < NOW.date()


def test_amounts_below_zero_are_refunds() -> None:
    amounts = np.where(RNG.random(ROWS) < 0.05, -1, 1) * (1 + RNG.random(ROWS) * 50).round(2)

    assigned = assign(table(Price=amounts))

    assert (assigned.columns["amount"], assigned.limits) == ("Price", {"negative_amounts": True})


def test_texts_of_many_values_and_constants_are_left_out_with_the_reason() -> None:
    notes = [f"note {number // 2}" for number in range(ROWS)]

    assigned = assign(table(remark=notes, currency="EUR", delta=RNG.normal(size=ROWS).round(2)))

    assert assigned.left_out["remark"] == "a text with 300 values is no category"
    assert assigned.left_out["currency"] == "has one value"
    assert assign(table(**{"Unnamed: 0": np.arange(ROWS)})).left_out == {"Unnamed: 0": "numbers the rows"}
    assert assigned.columns["numeric"] == ["delta"]


def test_a_number_that_only_rises_with_the_event_s_time_is_no_input() -> None:
    seconds = pd.Series(MINUTES) * 60 + 1325376000

    assigned = assign(table(unix_time=seconds, nearly=seconds.sample(frac=1, random_state=1).to_numpy()).sample(frac=1))

    assert assigned.left_out["unix_time"].startswith("it only rises with the event's time")
    assert assigned.columns["numeric"] == ["nearly"]


@pytest.mark.parametrize(
    ("column", "choices", "settings"),
    [
        (np.where(LABEL, "Yes", "No"), {}, {"positive": ["Yes"], "negative": ["No"]}),
        (np.where(LABEL, "true", "false"), {}, {"positive": [], "negative": []}),
        (np.where(LABEL, "returned", "kept"), {}, {"positive": ["returned"], "negative": ["kept"]}),
        (np.where(LABEL, "1", "-1"), {}, {"positive": ["1"], "negative": ["-1"]}),
        (
            np.where(LABEL, "refunded", RNG.choice(["paid", "open"], ROWS)),
            {"label": "fraud", "positive": ("refunded",)},
            {"positive": ["refunded"], "negative": ["open", "paid"]},
        ),
    ],
)
def test_labels_that_are_words_are_listed_in_the_config(
    column: Any, choices: dict[str, Any], settings: dict[str, list[str]]
) -> None:
    assigned = assign(table(fraud=column), **choices)

    assert {key: assigned.settings[key] for key in settings} == settings
    assert assigned.label.sum() == LABEL.sum()


def test_an_outcome_is_positive_even_where_most_rows_have_it() -> None:
    assigned = assign(table(fraud=np.where(LABEL, "not converted", "converted")))

    assert assigned.settings["positive"] == ["converted"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("columns", "choices", "complaint"),
    [
        (
            {"churned": LABEL.astype(int)[::-1]},
            {},
            "several columns may be what is predicted; give --label with one of",
        ),
        (
            {"fraud": np.arange(ROWS) % 7 / 2},
            {"label": "fraud"},
            "'fraud' has 7 values, 0, 0.5, 1, 1.5, 2, 2.5, 3; give --positive",
        ),
        ({"fraud": 1 + LABEL}, {"label": "fraud"}, "'fraud' has 2 values, 1, 2; give --positive"),
        ({"fraud": "x"}, {}, "no column is plainly what is predicted; give --label with one of"),
        ({}, {"label": "fruad"}, "--label.fruad: unknown; allowed here: at, fraud, order id; did you mean 'fraud'?"),
        ({}, {"positive": ("yes",)}, "--positive: column 'fraud' has no 'yes'; it has 0, 1"),
        (
            {"order id": np.arange(ROWS) // 3},
            {},
            "no column has an id of its own for each row; 'order id' comes nearest",
        ),
        ({"at": "soon"}, {}, "no column holds times that can be read; its first row is order id=0"),
        ({}, {"event_time": "fraud"}, "column 'fraud' holds no times that can be read"),
    ],
)
def test_what_the_data_does_not_say_is_asked_for_with_its_flag(
    columns: dict[str, Any], choices: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(UserError) as error:
        assign(table(**columns), **choices)

    assert complaint in str(error.value)


AMBIGUOUS = pd.Series([f"{1 + number % 12:02}/{1 + number * 7 % 12:02}/2024" for number in range(ROWS)])


def test_the_row_that_an_error_shows_is_the_first_of_the_file() -> None:
    frame = pd.DataFrame({"booked_at": 7, "merchant": 7527213246127876953, "x": 1.5, "note": "a"}, range(ROWS))
    frame.loc[0, "note"] = None

    with pytest.raises(UserError, match=r"its first row is booked_at=7, merchant=7527213246127876953, x=1\.5; write"):
        assign(frame)


def test_days_that_may_be_months_are_asked_for() -> None:
    with pytest.raises(UserError, match=r"days first \(%d/%m/%Y\) or months first \(%m/%d/%Y\).*; give --day-first or"):
        assign(table(at=AMBIGUOUS))


@pytest.mark.parametrize(("day_first", "spelled"), [(True, "%d/%m/%Y"), (False, "%m/%d/%Y")])
def test_a_person_says_whether_days_come_first(day_first: bool, spelled: str) -> None:
    assert assign(table(at=AMBIGUOUS), day_first=day_first).settings["times"] == [spelled]


@pytest.mark.parametrize(
    ("texts", "times"),
    [
        (["01/02/2025", "02/02/2025", "01/03/2025"], ["%d/%m/%Y"]),
        (["02/01/2025", "02/02/2025", "03/01/2025"], ["%m/%d/%Y"]),
        (["12/11/2025", "01/02/2025", "11/10/2025"], ["%d/%m/%Y"]),
    ],
)
def test_order_of_rows_and_the_present_tell_days_from_months(texts: list[str], times: list[str]) -> None:
    guessed = moments.guess(pd.Series(texts), datetime(2025, 12, 1))

    assert guessed is not None
    assert (guessed.times, guessed.swapped) == (times, [])


@pytest.mark.parametrize("spelled", ["%y-%m-%d", "%y/%m/%d", "%d/%m/%y", "%m-%d-%y"])
def test_a_year_of_two_digits_is_told_from_days(spelled: str) -> None:
    days = pd.Series(pd.date_range("2025-03-01", periods=60)).dt.strftime(spelled)

    guessed = moments.guess(days, NOW)

    assert guessed is not None
    assert (guessed.times, guessed.swapped) == ([spelled], [])


def test_the_earliest_of_several_times_is_the_event_s() -> None:
    assigned = assign(table(closed=pd.to_datetime(TIMES) + pd.Timedelta(days=3)))

    assert assigned.columns["event_time"] == "at"
    assert "later than the event" in assigned.left_out["closed"]


@pytest.mark.parametrize("shuffled", [False, True])
def test_a_time_before_the_event_is_not_the_event_s_as_the_order_of_rows_shows(shuffled: bool) -> None:
    born = pd.to_datetime(RNG.integers(0, 10_000, ROWS), unit="D").astype(str)
    frame = table(born=born, seen=pd.to_datetime(TIMES) + pd.to_timedelta(RNG.integers(0, 9, ROWS), unit="h"))

    assigned = assign(frame.sample(frac=1, random_state=0) if shuffled else frame)

    assert assigned.columns["event_time"] == ("born" if shuffled else "at")
    note = f"{'born' if shuffled else 'at'!r} is the event's time; --time takes another, such as "
    assert any(sentence.startswith(note) for sentence in assigned.notes)


def test_a_time_of_day_beside_a_date_is_named_and_beside_a_time_is_a_category() -> None:
    hours = RNG.choice(["09:30", "17:00"], ROWS)

    assigned = assign(table(at=TIMES.str[:10], hour=hours))

    assert assigned.left_out == {"hour": "the time of day, which belongs in 'at'; write both there"}
    assert assign(table(opens=hours)).columns["categorical"] == ["opens"]


def test_a_column_that_only_its_values_make_an_id_is_named() -> None:
    frame = table().rename(columns={"order id": "weight"})

    assert any(note.startswith("'weight' is taken for the id, since") for note in assign(frame).notes)
    assert not any("is taken for the id" in note for note in assign(table()).notes)


def test_a_flag_is_no_amount_whatever_its_name() -> None:
    assigned = assign(table(charge=(RNG.random(ROWS) < 0.5).astype(int)))

    assert assigned.columns["numeric"] == ["charge"]


def test_every_value_that_counts_as_negative_is_named() -> None:
    states = np.where(LABEL, "Yes", RNG.choice(["No", "?"], ROWS))

    assigned = assign(table(fraud=states), label="fraud", positive=("Yes",))

    assert any("rows are positive (Yes; ?, No are negative)" in note for note in assigned.notes)


def test_ids_as_large_as_seconds_since_1970_are_no_times_where_others_are() -> None:
    accounts = 1_200_000_000 + RNG.integers(0, 90, ROWS)
    seconds = (pd.to_datetime(TIMES) - pd.Timestamp(0)) // pd.Timedelta(seconds=1)

    assert assign(table(account=accounts)).columns["customer"] == "account"
    assigned = assign(table(account=accounts, at=seconds))
    assert (assigned.columns["event_time"], assigned.columns["customer"]) == ("at", "account")


def proposed(frame: pd.DataFrame, **choices: Any) -> proposal.Proposal:
    return proposal.propose("orders", {"table": "x.csv"}, assign(frame, **choices), Choices(**choices), [])


def test_weekdays_without_rows_are_named_in_the_config() -> None:
    weekdays = pd.to_datetime(TIMES).dt.day_name()

    config = proposed(table().loc[~weekdays.isin(["Saturday", "Sunday"])].reset_index(drop=True)).config

    assert config["source"]["empty_days"] == ["saturday", "sunday"]


def test_labels_that_are_missing_at_the_end_tell_the_delay() -> None:
    last = pd.to_datetime(TIMES).max().normalize()
    late = pd.to_datetime(TIMES) > last - pd.Timedelta(days=3)

    assert proposed(table(fraud=pd.Series(LABEL.astype(int)).astype("Int8").mask(late))).config["label_delay_days"] == 4


def test_too_few_days_are_refused_with_what_a_run_needs() -> None:
    with pytest.raises(
        UserError, match=r"the rows are of 9 days, .* and a run needs at least \d+: .*; bring more days"
    ):
        proposed(table().iloc[:60])


def chargebacks(days: int) -> list[str | None]:
    """The days on which positives were charged back, each so many days after the event."""
    late = (pd.to_datetime(TIMES) + pd.Timedelta(days=days)).dt.strftime("%Y-%m-%d")
    return late.where(pd.Series(LABEL), None).tolist()


def test_a_later_time_tells_the_delay_of_labels() -> None:
    suggested = proposed(table(charged_back=chargebacks(5)))

    assert suggested.config["label_delay_days"] == 5
    assert "'charged_back' is up to 5 days after the event" in suggested.notes["label_delay_days"][0]
    assert proposed(table(charged_back=chargebacks(5)), label_delay_days=3).config["label_delay_days"] == 3


def test_a_delay_for_which_there_are_too_few_days_is_named_and_the_longest_that_fits_taken() -> None:
    suggested = proposed(table(charged_back=chargebacks(40)))

    delay = suggested.config["label_delay_days"]
    (note,) = suggested.notes["label_delay_days"]
    assert f"up to 40 days after the event, within {delay} days on 0% of its rows. The table has too few days" in note
    with pytest.raises(UserError, match="a run needs at least"):
        proposed(table(charged_back=chargebacks(40)), label_delay_days=delay + 1)


def test_a_number_whose_name_the_pipeline_uses_is_left_out() -> None:
    assigned = assign(table(amount=RNG.random(ROWS)))

    assert assigned.left_out == {"amount": "its name is used inside the pipeline; rename it if a model is to see it"}


@given(
    st.datetimes(datetime(2025, 1, 2), datetime(2025, 12, 30)),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Pacific/Auckland"]),
)
def test_a_first_run_is_of_a_utc_day_that_ends_before_the_newest_local_day_does(newest: datetime, zone: str) -> None:
    rows = pd.Series(1.0, pd.date_range("2025-01-01", newest.date()))

    last = DailyCounts(rows, rows, rows).complete(pd.Timestamp(newest), zone).span.last

    local_day = newest.replace(tzinfo=UTC).astimezone(ZoneInfo(zone)).date()
    local_end = datetime.combine(local_day + timedelta(days=1), time(), ZoneInfo(zone))
    ends = [datetime.combine(last + timedelta(days=days), time(), UTC) for days in (1, 2)]
    assert ends[0] <= local_end < ends[1] or last == newest.date()


UNITS = RNG.poisson(20, ROWS)


def sales(**columns: Any) -> pd.DataFrame:
    """A table whose label is a number."""
    frame = table(units_sold=UNITS, shop=RNG.integers(0, 9, ROWS), product=RNG.choice(["tea", "rice"], ROWS), **columns)
    return frame.drop(columns="fraud")


def test_a_number_that_is_named_like_a_label_is_predicted_by_its_series() -> None:
    assigned = assign(sales(price=RNG.random(ROWS).round(2)))

    assert assigned.is_number
    expected = {"series": ["shop", "product"], "label": "units_sold", "numeric": ["price"]}
    assert assigned.columns == {"event_id": "order id", "event_time": "at"} | expected
    assert assigned.label.tolist() == UNITS.tolist()


def test_a_number_beside_a_yes_and_no_is_asked_about() -> None:
    with pytest.raises(UserError, match="several columns may be what is predicted; give --label with one of promotion"):
        assign(sales(promotion=MOST.astype(int)))


def test_a_column_that_is_the_number_itself_is_left_out() -> None:
    assigned = assign(sales(revenue=UNITS * 3 + 1))

    assert assigned.left_out["revenue"].startswith("since it rises or falls with the label on nearly every row")


QUEUES = RNG.choice(["billing", "delivery", "technical"], ROWS, p=[0.5, 0.3, 0.2])


@pytest.mark.parametrize(
    ("values", "classes"),
    [(QUEUES, ["billing", "delivery", "technical"]), (1 + np.arange(ROWS) % 4, ["1", "2", "3", "4"])],
)
def test_a_label_of_three_or_more_values_is_one_of_classes(values: Any, classes: list[str]) -> None:
    assigned = assign(table(fraud=values), label="fraud")

    assert assigned.classes == classes and not assigned.is_number
    assert {classes[int(number)] for number in assigned.label} == {*classes}
    assert f"one of {len(classes)} classes, {', '.join(classes)}" in " ".join(assigned.notes)


def test_a_class_is_yes_or_no_where_a_person_says_what_is_positive() -> None:
    assigned = assign(table(fraud=QUEUES), label="fraud", positive=("technical",))

    assert assigned.classes == []
    assert assigned.settings["positive"] == ["technical"]


def test_a_column_named_like_a_class_is_predicted_where_no_other_is() -> None:
    assert assign(table(fraud="x", queue=QUEUES)).columns["label"] == "queue"
    assert assign(table(queue=QUEUES)).columns["label"] == "fraud"


def test_a_column_that_tells_a_class_is_left_out_and_asked_about() -> None:
    agent = np.where(QUEUES == "technical", "Tina", RNG.choice(["Bo", "Dee"], ROWS))

    assigned = assign(table(fraud=QUEUES, agent=agent), label="fraud")

    assert "where class 'technical' is the positive one" in assigned.left_out["agent"]
    assert "agent" not in assigned.columns.get("categorical", [])
