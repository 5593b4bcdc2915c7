from datetime import date
from uuid import UUID

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pandera.errors import SchemaError, SchemaErrors

from components.ingestion import core
from nightshift.config import parse
from nightshift.config.tabular import TabularSimulator
from nightshift.runtime.errors import UserError
from nightshift.tasks.tabular import simulator

from .conftest import CONFIG

DAY = date(2024, 3, 10)
WORLD = TabularSimulator(customers=60, terminals=120)
SPOILED = {
    "missing_key": ("customer_id", None),
    "unparsable_time": ("time", "yesterday"),
    "outside_day": ("time", "2024-03-11T00:00:00"),
    "bad_amount": ("amount", -0.01),
    "unknown_label": ("fraud", 2),
    "missing_label": ("fraud", None),
}


@pytest.fixture
def raw():
    """A day's rows as Python objects, so that any value can be put anywhere."""
    frame = simulator.SimulationTask().day(WORLD, DAY).astype({"time": str, "fraud": "int64"})
    frame["channel"], frame["rating"] = "shop", 0.5
    return frame.astype(object)


@pytest.fixture
def extended():
    columns = CONFIG["columns"] | {"numeric": ["rating"], "categorical": ["channel"]}
    return parse(CONFIG | {"columns": columns})


def split(raw, config=None, labels_due=True, text_ids=()):
    return core.split(raw, config or parse(CONFIG), DAY, labels_due, text_ids)


KEYS = ("transaction_id", "customer_id", "terminal_id")
BAD = [
    *((rule, column, value) for rule, (column, value) in SPOILED.items()),
    *(("missing_key", column, value) for column in KEYS for value in (None, "", np.nan)),
    *(("bad_amount", "amount", value) for value in (-1, np.inf, -np.inf, np.nan, None, "", "12,50", "free")),
    *(("bad_number", "rating", value) for value in (None, "a lot", np.inf)),
]


@pytest.mark.parametrize(("rule", "column", "value"), BAD)
def test_a_bad_row_is_quarantined_under_its_rule(raw, extended, rule, column, value):
    raw.loc[3, column] = value
    result = split(raw, extended)
    assert result.rejected_rows == {rule: 1}
    assert len(result.good) == len(raw) - 1
    if column != "transaction_id":
        assert result.bad["transaction_id"].tolist() == [str(raw.loc[3, "transaction_id"])]


def test_an_amount_has_a_limit_which_the_config_says(raw):
    raw.loc[0, "amount"] = 9e16
    assert split(raw).rejected_rows == {"over_limit": 1}
    assert split(raw, parse(CONFIG | {"limits": {"largest_amount": 5}})).rejected_rows["over_limit"] > 1


def test_amounts_below_zero_are_refunds_where_the_config_says_so(raw):
    raw.loc[0, "amount"] = -5
    refunds = parse(CONFIG | {"limits": {"negative_amounts": True, "largest_amount": 1e6}})
    result = split(raw, refunds)
    assert result.rejected_rows == {}
    assert result.good["amount"].min() == -5
    raw.loc[1, "amount"] = -2e6
    assert split(raw, refunds).rejected_rows == {"over_limit": 1}


NOTHING = [None, "", np.nan, pd.NA]


@settings(max_examples=25, deadline=None)
@given(st.sets(st.sampled_from(["rating", "age", "km"])), st.data())
def test_a_row_without_a_number_is_good_if_and_only_if_all_that_it_lacks_are_nullable(nullable, data):
    columns = CONFIG["columns"] | {"numeric": ["rating", "age", "km"]}
    config = parse(CONFIG | {"columns": columns, "limits": {"nullable": sorted(nullable)}})
    raw = simulator.SimulationTask().day(WORLD, DAY).assign(rating=1.0, age=2.0, km=3.0).astype(object).head(20)
    lacks = [data.draw(st.sets(st.sampled_from(["rating", "age", "km"]))) for _ in range(len(raw))]
    for row, names in enumerate(lacks):
        for name in names:
            raw.loc[row, name] = data.draw(st.sampled_from(NOTHING))
    good = [names <= nullable for names in lacks]

    result = split(raw, config)

    assert result.rejected_rows == ({"bad_number": good.count(False)} if False in good else {})
    expected = raw[good].sort_values(["time", "transaction_id"])
    holes = result.good[["rating", "age", "km"]].isna()
    assert holes.to_numpy().tolist() == [
        [name in lacks[row] for name in ("rating", "age", "km")] for row in expected.index
    ]


@pytest.mark.parametrize("value", ["a lot", np.inf, "nan"])
def test_what_is_there_and_no_number_is_bad_in_a_nullable_column_too(raw, extended, value):
    raw.loc[3, "rating"] = value
    nullable = parse(extended.model_dump(mode="json") | {"limits": {"nullable": ["rating"]}})
    assert split(raw, nullable).rejected_rows == {"bad_number": 1}


@pytest.mark.parametrize(
    ("rule", "remedy"),
    [
        ("bad_amount", "source.format.decimal and thousands"),
        ("bad_amount", "set limits.negative_amounts if amounts may be below 0"),
        ("bad_number", "name the column in limits.nullable if its numbers may be missing"),
        ("over_limit", "raise limits.largest_amount or limits.longest_id"),
        ("duplicate_id_of_earlier_day", "set source.corrections if later rows correct earlier ones"),
        ("outside_day", "give one table as source.table"),
    ],
)
def test_a_rule_names_the_key_to_change_where_the_rows_are_right(rule, remedy):
    assert remedy in core.config_advice(rule, parse(CONFIG))


@pytest.mark.parametrize("column", KEYS)
def test_a_text_that_names_something_has_a_limit_which_the_config_says(raw, column):
    raw[column] = "x" + raw[column].astype(str)
    raw.loc[0, column] = "x" * 300
    assert split(raw).rejected_rows == {"over_limit": 1}
    assert split(raw, parse(CONFIG | {"limits": {"longest_id": 300}})).rejected_rows == {}


def test_nothing_was_paid_is_an_amount(raw):
    raw.loc[0, "amount"] = 0
    assert split(raw).rejected_rows == {}


def test_of_rows_that_share_an_id_the_first_good_one_stays(raw):
    raw.loc[[1, 2], "transaction_id"] = raw.loc[0, "transaction_id"]
    raw.loc[0, "amount"] = -5
    result = split(raw)
    assert result.rejected_rows == {"bad_amount": 1, "duplicate_id": 1}
    kept = result.good.loc[result.good["event_id"] == raw.loc[0, "transaction_id"], "amount"]
    assert kept.tolist() == [raw.loc[1, "amount"]]


def test_the_first_rule_that_fails_names_the_row(raw):
    raw.loc[0, ["customer_id", "time", "amount", "fraud"]] = None
    raw.loc[1, ["amount", "fraud"]] = None
    assert split(raw).rejected_rows == {"bad_amount": 1, "missing_key": 1}


def test_a_missing_label_is_no_fault_until_it_is_due(raw):
    raw.loc[:4, "fraud"] = None
    result = split(raw, labels_due=False)
    assert result.rejected_rows == {}
    assert result.good["label"].isna().sum() == 5
    raw["fraud"] = None
    assert split(raw, labels_due=False).good["label"].isna().all()


@pytest.mark.parametrize("missing", [2, 60, None])
def test_the_rows_of_a_day_whose_labels_are_late_stay(raw, missing):
    raw.loc[: missing or len(raw), "fraud"] = None
    result = split(raw)
    assert result.rejected_rows == {}
    assert result.unlabeled_rows == result.good["label"].isna().sum() == len(raw.iloc[: missing and missing + 1])


def test_a_bad_label_that_is_the_only_one_so_far_stops_no_run(raw):
    raw["fraud"] = None
    raw.loc[2, "fraud"] = 7
    assert split(raw, labels_due=False).rejected_rows == {"unknown_label": 1}


def test_an_unknown_label_is_a_fault_even_before_it_is_due(raw):
    raw.loc[0, "fraud"] = "maybe"
    assert split(raw, labels_due=False).rejected_rows == {"unknown_label": 1}


def test_the_first_and_the_last_moment_of_a_day_are_in_it(raw):
    raw.loc[0, "time"], raw.loc[1, "time"] = "2024-03-10T00:00:00Z", "2024-03-10T23:59:59.999999Z"
    raw.loc[2, "time"], raw.loc[3, "time"] = "2024-03-09T23:59:59.999999Z", "2024-03-11T00:00:00Z"
    assert split(raw).rejected_rows == {"outside_day": 2}


def test_extra_columns_keep_their_names_and_a_missing_category_is_empty_text(raw, extended):
    raw.loc[0, "channel"] = None
    good = split(raw, extended).good
    assert list(good.columns)[-2:] == ["rating", "channel"]
    assert good["rating"].dtype == np.float64
    assert sorted(set(good["channel"])) == ["", "shop"]


def test_a_partition_has_canonical_types_and_order(raw):
    raw.loc[5, "time"] = raw.loc[4, "time"]
    good = split(raw.sample(frac=1, random_state=0).reset_index(drop=True)).good
    assert {name: str(dtype) for name, dtype in good.dtypes.items()} == {
        "event_id": "int64",
        "event_time": "datetime64[us]",
        "customer": "int64",
        "terminal": "int64",
        "amount": "float64",
        "label": "Int8",
    }
    assert good["event_id"].tolist() == sorted(raw["transaction_id"])
    assert good["event_time"].is_monotonic_increasing


def test_ids_that_are_text_stay_text(raw):
    raw.loc[0, "customer_id"] = "C-1"
    result = split(raw, text_ids={"event_id"})
    assert result.id_types == {"event_id": "text", "customer": "text", "terminal": "integer"}
    assert "C-1" in set(result.good["customer"])
    assert result.good["terminal"].dtype == "int64"


def test_bad_rows_keep_every_column_of_the_users_as_text(raw):
    raw.loc[0, "amount"] = -5
    raw.loc[0, "rating"] = None
    bad = split(raw).bad
    assert list(bad.columns) == [*raw.columns, "quarantine_reason"]
    row = bad.iloc[0]
    assert (row["amount"], row["channel"], row["quarantine_reason"]) == ("-5", "shop", "bad_amount")
    assert pd.isna(row["rating"])


def test_a_column_of_the_users_own_named_reason_is_kept(raw):
    raw["reason"] = "they said so"
    raw.loc[0, "amount"] = -5
    bad = split(raw).bad
    assert bad[["reason", "quarantine_reason"]].to_numpy().tolist() == [["they said so", "bad_amount"]]


def own(raw, *roles, **extra):
    """A day of a use case with some of customer, terminal and amount only."""
    columns = {role: name for role, name in CONFIG["columns"].items() if role in ("event_id", "event_time", *roles)}
    config = CONFIG | {"columns": columns | {"label": "fraud"} | extra}
    return split(raw, parse(config))


@pytest.mark.parametrize("roles", [(), ("customer",), ("terminal",), ("amount",), ("customer", "amount")])
def test_events_hold_the_roles_that_are_given_and_their_rules_alone(raw, roles):
    raw.loc[0, ["customer_id", "terminal_id", "amount"]] = None
    result = own(raw, *roles)
    assert list(result.good) == ["event_id", "event_time", *roles, "label"]
    assert list(result.id_types) == ["event_id", *(role for role in roles if role != "amount")]
    assert len(result.bad) == bool(roles)


def test_ids_that_are_uuids_labels_in_words_and_names_in_any_alphabet_are_taken(raw):
    raw["transaction_id"] = [str(UUID(int=number)) for number in range(len(raw))]
    raw["fraud"] = raw["fraud"].map({0: "False", 1: "TRUE"})
    raw = raw.rename(columns={"channel": "Vertriebsweg (größter)", "rating": "оценка"})
    good = own(raw, "customer", numeric=["оценка"], categorical=["Vertriebsweg (größter)"]).good
    assert good["event_id"].iloc[0] == str(UUID(int=0))
    assert set(good["label"]) <= {0, 1}
    assert list(good)[-2:] == ["оценка", "Vertriebsweg (größter)"]


def test_true_and_false_are_no_numbers_and_the_message_says_where_they_go(raw, extended):
    raw["rating"] = True
    with pytest.raises(UserError, match=r"'rating' .* holds no number; .* true and false under columns\.categorical"):
        split(raw, extended)


SPOILING = st.lists(st.tuples(st.integers(0, 40), st.sampled_from(sorted(SPOILED))), max_size=12)


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(SPOILING, st.booleans())
def test_no_row_is_lost_and_no_bad_one_is_kept(spoiling, due):
    raw = simulator.SimulationTask().day(WORLD, DAY).astype({"time": str, "fraud": "int64"}).astype(object)
    for row, rule in spoiling:
        column, value = SPOILED[rule]
        raw.loc[row, column] = value
    result = split(raw, labels_due=due)
    assert len(result.good) + len(result.bad) == len(raw)
    ids = set(map(str, result.good["event_id"])) | set(result.bad["transaction_id"])
    assert ids == set(map(str, raw["transaction_id"]))
    last = {(row, SPOILED[rule][0]): rule for row, rule in spoiling}
    is_late = [*last.values()].count("missing_label") > 0.01 * len(raw)
    harmless = {"missing_label"} if is_late or not due else {}
    spoiled = {row for (row, _), rule in last.items() if rule not in harmless}
    assert len(result.bad) == len(spoiled)


def test_the_simulator_corrupts_rows_for_every_rule_in_turn():
    share = 0.5
    frame = simulator.SimulationTask().day(TabularSimulator(customers=600, terminals=1200, corrupt_share=share), DAY)
    quarantined = split(frame).rejected_rows
    expected = share * len(frame) / 7
    assert set(quarantined) == {*SPOILED, "duplicate_id"} - {"missing_label"}  # a missing label is late, not wrong
    assert all(abs(count - expected) < 1 for count in quarantined.values())


def test_the_schema_refuses_what_the_rules_would_have_to_catch(raw, extended):
    good = split(raw, extended).good
    schema = core.schema(extended, dict.fromkeys(("event_id", "customer", "terminal"), "integer"), labels_due=True)
    schema.validate(good)
    broken = [
        good.assign(amount=-1.0),
        good.assign(amount=np.inf),
        good.assign(event_id=1),
        good.assign(label=pd.array([None] * len(good), dtype="Int8")),
        good.assign(label=pd.array([2] * len(good), dtype="Int8")),
        good.assign(label=good["label"].astype("Int64")),
        good.assign(customer=good["customer"].astype(str)),
        good.assign(amount=good["amount"].astype("float32")),
        good.assign(rating=np.inf),
        good.assign(rating=good["rating"].astype("float32")),
        good.assign(channel=1),
        good.assign(event_time=good["event_time"].astype("datetime64[s]")),
        good.assign(more=1),
        good[["customer", *good.columns.drop("customer")]],
    ]
    for frame in broken:
        with pytest.raises((SchemaError, SchemaErrors)):
            schema.validate(frame)


def test_missing_columns_are_named_with_what_is_there_and_the_key_to_change(raw):
    with pytest.raises(UserError) as error:
        split(raw.rename(columns={"amount": "amonut"}).drop(columns="fraud"))
    message = str(error.value)
    assert "no column 'amount' (columns.amount; did you mean 'amonut'?), 'fraud' (columns.label)" in message
    assert "it has transaction_id, time, customer_id, terminal_id, amonut" in message


def test_a_day_without_rows_is_refused(raw):
    with pytest.raises(UserError, match="has no rows"):
        split(raw.iloc[:0])


@pytest.mark.parametrize(
    ("column", "value", "kind"),
    [("amount", "cheap", "number"), ("time", 17, "time"), ("fraud", "maybe", "label"), ("rating", "high", "number")],
)
def test_a_column_of_a_wrong_type_is_refused(raw, extended, column, value, kind):
    raw[column] = value
    with pytest.raises(UserError, match=rf"column '{column}' \(.*\) holds no {kind}.* first value is '{value}'"):
        split(raw, extended)


def test_examples_of_a_bad_number_show_the_numbers(raw, extended):
    raw.loc[0, "rating"] = "high"
    (row,) = core.examples([split(raw, extended).bad], extended, "bad_number")
    assert row.endswith("fraud=0, rating=high")


def test_examples_mask_identifiers_and_show_the_rest(raw):
    raw.loc[:4, "amount"] = -5
    raw.loc[0, "customer_id"] = "4111111111111111"
    raw.loc[5, ["customer_id", "time"]] = None, "yesterday"
    result = split(raw)
    rows = core.examples([result.bad.iloc[:1], result.bad.iloc[1:]], parse(CONFIG), "bad_amount")
    assert len(rows) == 3
    assert "customer_id=41111111***" in rows[0]
    assert "amount=-5" in rows[0]
    assert str(raw.loc[0, "transaction_id"]) not in rows[0]
    (row,) = core.examples([result.bad], parse(CONFIG), "missing_key")
    assert "customer_id=(missing), " in row
    assert "time=yesterday" in row
