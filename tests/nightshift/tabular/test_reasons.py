"""Texts of reasons say in words what features are declared to be, and inputs of several columns are one reason."""

import numpy as np
import pytest

from nightshift.config import parse
from nightshift.contracts.preprocessing import Feature, Inputs, TabularPreprocessing
from nightshift.models.contributions import Contributions, DenseLayers, Term
from nightshift.tabular.reason_texts import ReasonTexts, write_duration, write_feature, write_number
from nightshift.tabular.reasons import Explainer, read_values

COLUMNS = {role: role for role in ("event_id", "event_time", "amount", "label")}
COLUMNS |= {"customer": "card", "terminal": "shop", "categorical": ["category"]}
LINES = [
    {"calendar": ["hour", "day_of_week", "is_weekend", "is_night", "is_month_end"]},
    {"entity": "customer", "functions": ["mean"], "column": "amount", "windows": ["7d", "30d"]},
    {
        "entity": "customer",
        "functions": ["sum", "std", "min", "max", "first", "last", "ratio", "difference", "zscore"],
        "column": "amount",
        "windows": ["7d"],
    },
    {
        "entity": "customer",
        "functions": ["count", "seconds_since_last", "seconds_since_previous(3)"],
        "windows": ["1h", "last 10 of 30d"],
    },
    {"entity": "customer", "functions": ["decayed_count(6h)"]},
    {"entity": "customer", "functions": ["distinct"], "column": "terminal", "windows": ["7d"]},
    {"entity": ["customer", "category"], "functions": ["count"], "windows": ["1d"], "offset": "1h"},
    {"entity": "terminal", "functions": ["positive_count", "positive_rate"], "windows": ["30d"]},
]
CONFIG = parse(
    {
        "name": "cards",
        "source": {"table": "t.csv"},
        "columns": COLUMNS,
        "features": LINES,
        "task": {"kind": "tabular", "candidates": {"a": {"kind": "xgboost"}}},
    }
)
SPEC = CONFIG.feature_spec
NAMES = ["amount", *(part.value for part in SPEC.calendar), *(feature.name for feature in SPEC.features)]
INPUTS = TabularPreprocessing(
    numeric=NAMES, categorical={"category": ["food", "travel"]}, nullable=["customer_last_amount_7d"], features=SPEC
)
TEXTS = ReasonTexts(INPUTS)


def write(name: str, value: float | str | None, **others: float) -> str:
    return TEXTS.write(name, {name: value, **others})


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("hour", 3.0, "it is between 3:00 and 3:59"),
        ("day_of_week", 6.0, "it is a Sunday"),
        ("is_weekend", 0.0, "it is not a weekend"),
        ("is_night", 1.0, "it is night"),
        ("is_month_end", 1.0, "it is the end of a month"),
        ("customer_mean_amount_7d", 99.5, "this customer's mean amount in 7 days is 99.5"),
        ("customer_sum_amount_7d", 12345.6, "this customer's sum of amount in 7 days is 12,346"),
        ("customer_std_amount_7d", 0.1, "this customer's standard deviation of amount in 7 days is 0.1"),
        ("customer_min_amount_7d", 1.0, "this customer's least amount in 7 days is 1"),
        ("customer_max_amount_7d", 1.0, "this customer's greatest amount in 7 days is 1"),
        ("customer_first_amount_7d", 1.0, "this customer's first amount in 7 days is 1"),
        ("customer_last_amount_7d", 1.0, "this customer's last amount in 7 days is 1"),
        (
            "customer_last_amount_7d",
            None,
            "customer_last_amount_7d is missing: this customer has too few earlier events in 7 days",
        ),
        ("customer_ratio_amount_7d", 6.23, "amount is 6.2 times this customer's mean of 7 days"),
        ("customer_difference_amount_7d", -20.0, "amount is 20 below this customer's mean of 7 days"),
        ("customer_zscore_amount_7d", 3.14, "amount is 3.1 standard deviations above this customer's mean of 7 days"),
        ("customer_count_1h", 1.0, "this customer has 1 event in 1 hour"),
        ("customer_count_last_10_of_30d", 9.0, "this customer has 9 events in the last 10 events of 30 days"),
        ("customer_seconds_since_last_1h", 90.0, "this customer's last event was 1.5 minutes ago"),
        ("customer_seconds_since_previous_3_1h", 35.0, "this customer has had 3 events within 35 seconds"),
        ("customer_decayed_count_6h", 2.5, "this customer has 2.5 recent events, by weights that halve every 6 hours"),
        ("customer_distinct_terminal_7d", 4.0, "this customer has 4 different values of terminal in 7 days"),
        (
            "customer_category_count_1d_before_1h",
            2.0,
            "this combination of customer and category has 2 events in 1 day until 1 hour before",
        ),
        ("terminal_positive_count_30d", 2.0, "this terminal has 2 positives in 30 days whose labels are known"),
        ("terminal_positive_rate_30d", 0.023, "2.3% of this terminal's events in 30 days whose labels are known are "
         "positive"),
        ("category", "food", "category is 'food'"),
        ("category", None, "category has a value that no training row had"),
    ],
)  # fmt: skip
def test_a_text_says_what_an_input_is_declared_to_be(name, value, text) -> None:
    assert write(name, value) == text


def test_an_amount_stands_beside_its_mean_over_the_longest_window_where_that_has_one() -> None:
    beside = write("amount", 620.0, customer_mean_amount_7d=50.0, customer_mean_amount_30d=100.0)
    assert beside == "amount is 620, 6.2 times this customer's mean of 30 days"
    assert write("amount", 620.0, customer_mean_amount_30d=0.0) == "amount is 620"
    assert ReasonTexts(Inputs(numeric=["amount"], categorical={})).write("amount", {"amount": 620.0}) == "amount is 620"
    assert ReasonTexts(Inputs(numeric=["km"], categorical={})).write("km", {"km": None}) == "km is missing"


def test_a_function_of_a_package_is_named_with_its_value() -> None:
    feature = Feature(name="card_median_7d", function="median", entity=["card"], length=1)

    assert write_feature(feature, 3.5) == "card_median_7d is 3.5"


def test_numbers_are_short_and_durations_have_one_unit() -> None:
    assert [write_number(value) for value in (0.123456, 1e7, -1234.5, 0.0, 12.0)] == [
        "0.1235", "10,000,000", "-1,234", "0", "12"
    ]  # fmt: skip
    assert [write_duration(value) for value in (0.0, 1.0, 59.0, 3600.0, 5400.0, 86_400.0 * 30)] == [
        "0 seconds", "1 second", "59 seconds", "1 hour", "1.5 hours", "30 days"
    ]  # fmt: skip


def explainer(*weights: float) -> Explainer:
    """A linear model of two numbers and the categories of two columns, which are in the order of their names."""
    inputs = Inputs(numeric=["b", "a"], categorical={"shop": ["x", "y"], "kind": ["p", "q", "r"]}, nullable=["a"])
    layers = [(np.array([weights], np.float32), np.zeros(1, np.float32))]
    flat = DenseLayers(np.zeros(7, np.float32), np.ones(7, np.float32), layers)
    return Explainer(inputs, Contributions([Term(flat)]))


def test_the_columns_of_a_category_are_one_reason_and_what_contributes_nothing_is_none() -> None:
    row = np.array([[1, np.nan, 0, 1, 0, 0, 1]], np.float32)

    (reasons,) = explainer(-1, 5, 9, 3, 9, 9, 0.5).explain(row, 7)

    assert [(reason.input, reason.contribution, reason.text) for reason in reasons] == [
        ("kind", 3.0, "kind is 'q'"),
        ("b", -1.0, "b is 1"),
        ("shop", 0.5, "shop is 'y'"),
    ]


def test_no_rows_have_no_reasons() -> None:
    assert explainer(*[1] * 7).explain(np.zeros((0, 7), np.float32), 3) == []


def test_equal_contributions_are_in_the_order_of_the_inputs_and_only_the_largest_are_kept() -> None:
    (reasons,) = explainer(1, -1, 0, 0, 0, 1, 0).explain(np.array([[1, 1, 0, 0, 0, 1, 0]], np.float32), 2)

    assert [reason.input for reason in reasons] == ["b", "a"]


def test_a_category_that_training_never_saw_has_no_value() -> None:
    (values,) = read_values(explainer(*[0] * 7).inputs, np.zeros((1, 7), np.float32))

    assert values == {"b": 0.0, "a": 0.0, "kind": None, "shop": None}
