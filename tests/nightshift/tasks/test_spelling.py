"""Times, numbers and labels as `source.format` spells them."""

import pandas as pd
import pytest

from nightshift.config.source import FileFormat, Source
from nightshift.config.tabular import TabularFormat
from nightshift.tasks import columns, spelling


def text(*values: str | None) -> pd.Series:
    return pd.Series(list(values), dtype="str")


def times(column: pd.Series, *spellings: str, timezone: str = "UTC") -> list[str]:
    source = Source(table="x.csv", format=FileFormat(times=list(spellings)), timezone=timezone)
    read = spelling.times(column, source)
    assert read.dtype == "datetime64[us]"
    return [str(moment) for moment in read.tolist()]


def test_the_first_spelling_that_fits_a_value_counts_and_no_other_format_is_read() -> None:
    column = text("31.12.2025 14:30", " 01.02.2025", "2025-12-31", "soon", None, "31.02.2025")
    expected = ["2025-12-31 14:30:00", "2025-02-01 00:00:00", "NaT", "NaT", "NaT", "NaT"]
    assert times(column, "%d.%m.%Y %H:%M", "%d.%m.%Y") == expected


def test_times_without_a_zone_are_of_the_config_s_zone_and_others_of_their_own() -> None:
    assert times(text("31.07.2025 14:30"), "%d.%m.%Y %H:%M", timezone="Europe/Berlin") == ["2025-07-31 12:30:00"]
    assert times(text("31.07.2025 14:30+0500"), "%d.%m.%Y %H:%M%z", timezone="Europe/Berlin") == ["2025-07-31 09:30:00"]
    assert times(text("31.07.2025 14:30 UTC"), "%d.%m.%Y %H:%M UTC", timezone="Europe/Berlin") == [
        "2025-07-31 14:30:00"
    ]
    named = ["31.07.2025 14:30 Europe/Berlin", "31.01.2025 14:30 UTC", "31.07.2025 14:30 CET", "31.07.2025 14:30 A/B"]
    assert times(text(*named), "%d.%m.%Y %H:%M %Z") == ["2025-07-31 12:30:00", "2025-01-31 14:30:00", "NaT", "NaT"]


@pytest.mark.parametrize(
    ("spelled", "value", "expected"),
    [
        ("%Y%m%d%H%M%S", "202501011430", "NaT"),
        ("%Y%m%d%H%M", "202501011430", "2025-01-01 14:30:00"),
        ("%Y%m%d%H", "2025010114.0", "2025-01-01 14:00:00"),
        ("%Y%m%d%H%M%S%f", "2025010125143012", "NaT"),
        ("%Y%m%d", "2025131", "NaT"),
        ("%d.%m.%Y %H%M", "1.3.2025 230", "NaT"),
        ("%d.%m.%Y %H%M", "1.3.2025 0230", "2025-03-01 02:30:00"),
        ("%d.%m.%Y %H:%M", "1.3.2025 2:30", "2025-03-01 02:30:00"),
        ("%b %d %Y %I:%M%p", "Mar  1 2025  2:30PM", "2025-03-01 14:30:00"),
    ],
)
def test_a_field_that_nothing_separates_has_all_of_its_digits(spelled: str, value: str, expected: str) -> None:
    assert times(text(value), spelled) == [expected]


@pytest.mark.parametrize(
    "column", [pd.Series([20250301, 20250302]), pd.Series([20250301.0, 20250302.0]), text("20250301.0", "20250302")]
)
def test_a_date_key_is_a_date_in_every_type_that_can_hold_it(column: pd.Series) -> None:
    assert times(column, "%Y%m%d") == ["2025-03-01 00:00:00", "2025-03-02 00:00:00"]


@pytest.mark.parametrize(
    ("spelled", "value", "expected"),
    [
        ("epoch_seconds", "1760076060", "2025-10-10 06:01:00"),
        ("epoch_seconds", "1760076060.25", "2025-10-10 06:01:00.250000"),
        ("epoch_milliseconds", "1760076060001", "2025-10-10 06:01:00.001000"),
        ("epoch_microseconds", "1760076060000001", "2025-10-10 06:01:00.000001"),
        ("epoch_nanoseconds", "1760076060000001999", "2025-10-10 06:01:00.000001"),
        ("epoch_seconds", "-1", "1969-12-31 23:59:59"),
        ("epoch_seconds", "1e999999", "NaT"),
        ("epoch_seconds", "9999999999999", "NaT"),
    ],
)
def test_a_number_since_1970_is_exact_to_the_microsecond(spelled: str, value: str, expected: str) -> None:
    assert times(text(value), spelled) == [expected]


def test_numbers_of_an_integer_column_are_times_too() -> None:
    assert times(pd.Series([1760076060, None], dtype="Int64"), "epoch_seconds") == ["2025-10-10 06:01:00", "NaT"]


@pytest.mark.parametrize(
    ("spelled", "values", "expected"),
    [
        (FileFormat(decimal=","), ["1444,81", "-3", ",5", "1.5", "1,2,3"], [1444.81, -3, 0.5, None, None]),
        (
            FileFormat(thousands=","),
            ["1,234.50", "12,34,567", "1234", "1,23", "1,2345", "0,567"],
            [1234.5, 1234567, 1234, None, None, None],
        ),
        (FileFormat(decimal=",", thousands="."), ["1.234,5", "1234.5", "1.5"], [1234.5, None, None]),
        (FileFormat(decimal=",", thousands="."), ["1.700e-05", "1,7e-05"], [None, 1.7e-05]),
        (FileFormat(decimal=",", thousands=" "), ["1 234,5", "1\u202f234", "1\u00a0234"], [1234.5, 1234, 1234]),
        (FileFormat(thousands="'"), ["1'234.5", "1\u2019234"], [1234.5, 1234]),
        (
            FileFormat(units=["$", "USD"]),
            ["$12.50", "-$3", "$-3", "12 USD", "-$-3", "12 EUR", "($5.00)", "$(5)", "$5.00-", "-$5.00"],
            [12.5, -3, -3, 12, None, None, -5, -5, -5, -5],
        ),
        (
            FileFormat(),
            ["(5.00)", "5.00-", "-5.00", "\u22125", "( 5 )", "(5", "5)", "(-5)", "-5-", "+5-", "(", "5-3"],
            [-5, -5, -5, -5, -5, None, None, None, None, None, None, None],
        ),
        (FileFormat(decimal=",", thousands="."), ["(1.234,50)", "1.234,50-", "(1,5"], [-1234.5, -1234.5, None]),
    ],
)
def test_numbers_are_read_by_their_marks_and_what_breaks_them_is_none(
    spelled: FileFormat, values: list[str], expected: list[float | None]
) -> None:
    read = spelling.numbers(text(*values), spelled)
    assert [None if pd.isna(number) else number for number in read] == expected


def test_a_cell_that_is_a_number_needs_no_marks() -> None:
    cells = pd.Series([1444.81, "1444,81"], dtype=object)

    assert spelling.numbers(cells, FileFormat(decimal=",")).tolist() == [1444.81, 1444.81]


def test_labels_are_named_by_value() -> None:
    column = text("Yes", "no", "maybe", None, "Yes ")
    read = columns.named_labels(column, ["Yes"], ["no"])
    assert read.astype(object).where(read.notna(), None).tolist() == [1, 0, None, None, 1]
    read = columns.named_labels(column, ["Yes"], [])
    assert read.astype(object).where(read.notna(), None).tolist() == [1, 0, 0, None, 1]


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ({"encoding": "klingon"}, "not an encoding of text"),
        ({"encoding": "base64"}, "not an encoding of text"),
        ({"decimal": ",", "thousands": ","}, "give different marks"),
        ({"times": ["%d.%m."]}, "not a spelling of times"),
        ({"times": ["%d.%m.%Y %Q"]}, "not a spelling of times"),
        ({"times": ["soon"]}, "not a spelling of times"),
        ({"times": ["%d.%m.%Y %I:%M"]}, "has one of %I and %p"),
        ({"times": ["%d.%m.%Y %H:%M %p"]}, "has one of %I and %p"),
        ({"times": ["%d.%m.%d.%Y"]}, "has more than one of %d"),
        ({"times": ["%d.%m.%Y %y"]}, "has more than one of %y, %Y"),
        ({"positive": ["Yes"], "negative": ["Yes"]}, "'Yes' is in 'positive' and in 'negative'"),
        ({"negative": ["No"]}, "'negative' is given without 'positive'"),
    ],
)
def test_a_format_that_means_nothing_is_refused(value: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        TabularFormat.parse_value(value)
