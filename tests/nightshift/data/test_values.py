"""When two values are one."""

import math
import re
import sys
import unicodedata
from decimal import Decimal

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightshift.data.values import EXACT, INT64, RESPELLED, canonical, parse_integer, parse_number
from nightshift.tasks import columns


@given(st.integers(-(10**30), 10**30))
def test_an_integer_is_the_same_in_every_type_that_can_hold_it(number):
    spellings = [number, str(number), f" {number}\n", str(number).encode(), Decimal(number)]
    spellings += [float(number), f"{number}.0", f"{number}.00"] if abs(number) < EXACT else []
    assert {canonical(value) for value in spellings} == {str(number)}
    assert parse_integer(str(number)) == (number if number in INT64 else None)


@given(st.floats(-EXACT, EXACT, exclude_min=True, exclude_max=True).filter(lambda value: not value.is_integer()))
def test_a_fraction_is_the_same_as_float_decimal_and_text(value):
    assert canonical(value) == canonical(Decimal(repr(value))) == canonical(repr(value)) == repr(value)


ODD = st.from_regex(r"\A[ \t]?(-?[01]{1,2}(\.0{0,2})?([eE]\+?1)?|[tT]rue|FALSE)[ \n]?\Z")


@given(st.text() | ODD | st.floats() | st.booleans() | st.none() | st.decimals(-(10**40), 10**40))
def test_a_spelling_is_its_own(value):
    spelling = canonical(value)
    assert spelling is None or canonical(spelling) == spelling
    assert not isinstance(value, str) or spelling == value or re.search(RESPELLED, value)


@pytest.mark.parametrize(
    "text", ["007", "1.10", "12e7", "+5", "1_0", "\uff11", "0x1F", "1,000", "NA", "nan", "00", "-"]
)
def test_other_texts_stay_as_they_are(text):
    assert canonical(text) == text
    assert parse_integer(text) is None


def test_true_is_true_and_nothing_is_empty():
    assert {canonical(value) for value in (True, "True", "TRUE", "true", b"true")} == {"true"}
    assert {canonical(value) for value in (None, math.nan, Decimal("NaN"), "", "  ", b"")} == {""}


@pytest.mark.parametrize(
    "value",
    [
        float(EXACT),
        -1e300,
        math.inf,
        Decimal("Infinity"),
        f"{EXACT}.0",
        "1.8014398509481984e+16",
        "1.23457E14",
        "1E+15",
    ],
)
def test_a_float_that_cannot_tell_integers_apart_has_no_spelling(value):
    assert canonical(value) is None


@pytest.mark.parametrize(("text", "number"), [("1e5", 1e5), (" 1 ", 1), ("+.5", 0.5), ("1.", 1), ("-0.1E-2", -0.001)])
def test_a_number_is_written_in_ascii_digits_with_a_point(text, number):
    assert parse_number(text) == number


@pytest.mark.parametrize(
    "text",
    ["1_000", "\uff11\uff12", "\u0661", "nan", "inf", "-Infinity", "0x10", "1,000", "1 000", "", ".", "e5", "1d5"],
)
def test_what_else_pythons_float_may_read_is_no_number(text):
    assert math.isnan(parse_number(text))


INVISIBLE = [
    chr(code)
    for code in range(sys.maxunicode + 1)
    if unicodedata.category(chr(code)) in ("Zs", "Zl", "Zp", "Cf") or chr(code).isspace()
]
VISIBLE = st.text(st.characters(exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp", "Cf"]), min_size=1)


def test_every_white_space_and_mark_without_a_width_around_a_text_goes() -> None:
    texts = [f"{mark}{text}{mark}" for mark in INVISIBLE for text in ("C17", "caf\u00e9 1", "28")]

    assert [canonical(text) for text in texts] == ["C17", "caf\u00e9 1", "28"] * len(INVISIBLE)
    assert columns.ids(pd.Series(texts), as_text=True).tolist() == ["C17", "caf\u00e9 1", "28"] * len(INVISIBLE)


@given(VISIBLE, st.text(st.sampled_from(INVISIBLE)), st.sampled_from(["NFC", "NFD"]))
def test_a_text_is_one_in_files_and_requests_whatever_its_form_and_what_is_around_it(text, around, form):
    written = f"{around}{unicodedata.normalize(form, text)}{around}"
    assert canonical(written) == canonical(unicodedata.normalize("NFC", text))
    column = pd.Series([written], dtype="str")
    assert columns.canonical(column).astype(object).where(lambda read: read.notna(), None).tolist() == [
        canonical(written)
    ]


@pytest.mark.parametrize(
    ("text", "other"), [("\uff43\uff11", "c1"), ("\ufb01n", "fin"), ("\u2460", "1"), ("a\u00a0b", "a b")]
)
def test_texts_that_only_look_alike_stay_apart(text, other):
    assert canonical(text) == text != other
