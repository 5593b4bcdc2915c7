"""When two values are one: the rule for ids, categories, labels and numbers, of files and of online events alike."""

import json
import math
import re
import unicodedata
from collections.abc import Collection, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any

EXACT = 2**53  # from here on, neighboring integers are one float64
INT64 = range(-(2**63), 2**63)
LABELS = {"0": 0, "1": 1, "false": 0, "true": 1}
# 28.0 is 28, since a missing value makes floats of a column of integers; '007' and '1.10' may be names
WHOLE = re.compile(r"(-?(?:0|[1-9][0-9]*))(\.0+)?")
# a float as Python, Java and Excel write a large one; '12e7' may be an id in hexadecimal
SCIENTIFIC = re.compile(r"-?[0-9](?:\.[0-9]+[eE]\+?|[eE]\+)[0-9]+")
# first and last of each run of Unicode's white space (Zs, Zl, Zp and controls) and of its marks without a width (Cf)
RUNS = (
    *("\t\r", "\x1c ", "\x85\x85", "\xa0\xa0", "\xad\xad", "\u0600\u0605", "\u061c\u061c", "\u06dd\u06dd"),
    *("\u070f\u070f", "\u0890\u0891", "\u08e2\u08e2", "\u1680\u1680", "\u180e\u180e", "\u2000\u200f"),
    *("\u2028\u202f", "\u205f\u2064", "\u2066\u206f", "\u3000\u3000", "\ufeff\ufeff", "\ufff9\ufffb"),
    *("\U000110bd\U000110bd", "\U000110cd\U000110cd", "\U00013430\U0001343f", "\U0001bca0\U0001bca3"),
    *("\U0001d173\U0001d17a", "\U000e0001\U000e0001", "\U000e0020\U000e007f"),
)
SPACE = "".join(chr(code) for run in RUNS for code in range(ord(run[0]), ord(run[1]) + 1))
# the texts that may not be their own spelling, so that a column of others is not looked at one by one
ASCII_SPACE = r"\t-\r\x1c- "
RESPELLED = (
    rf"[^\x00-\x7f]|^[{ASCII_SPACE}]|[{ASCII_SPACE}]$|^(?i:true|false)$|^-0$|^-?(?:0|[1-9][0-9]*)\.0+$"
    rf"|^{SCIENTIFIC.pattern}$"
)
NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def canonical(value: Any) -> str | None:
    """Return the one spelling of a value.

    Whole numbers are written without a point, whatever their type; true and false in lowercase; bytes are UTF-8; white
    space and marks without a width around a text, such as U+00A0 and U+200B, are not part of it, and it is in Unicode's
    form NFC. All other texts stay as they are: those that only look alike are several.

    Returns:
        empty text where there is no value; None for a float, or a text that spells one, too large to tell integers
        apart: 2^53 or more, or in scientific notation.
    """
    if isinstance(value, str):
        return _canonical_text(value)
    if isinstance(value, bool | int):
        return str(value).lower()
    if isinstance(value, float | Decimal):
        return _canonical_fraction(value)
    return "" if value is None else _canonical_text(format_value(value))


def format_value(value: Any) -> str:
    """Return a value as it is written: bytes are UTF-8, others escaped, a midnight is its date, a list is JSON's."""
    # an array too, by what it can: Airflow reads configs, without NumPy
    if isinstance(value, Collection) and not isinstance(value, str | bytes | bytearray | Mapping):
        return json.dumps([*value], default=str, ensure_ascii=False)
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    return str(value).removesuffix(" 00:00:00") if isinstance(value, datetime) else str(value)


def parse_integer(text: str) -> int | None:
    """Return a canonical text as an integer of 64 bits, or None where it is no such integer."""
    match = WHOLE.fullmatch(text)
    return int(text) if match and not match[2] and len(text) <= len(str(INT64[0])) and int(text) in INT64 else None


def parse_number(text: str) -> float:
    """Return a text as a float64, or NaN where it is no decimal number in ASCII digits.

    Space around it is left out; 'nan', 'inf', '0x10', '1_000' and '1,000' are no numbers.
    """
    text = text.strip(SPACE)
    return float(text) if NUMBER.fullmatch(text) else math.nan


def _canonical_text(text: str) -> str | None:
    text = unicodedata.normalize("NFC", text.strip(SPACE))
    if match := WHOLE.fullmatch(text):
        if match[2] == ".0" and abs(int(match[1])) >= EXACT:  # as floats are written, and no decimals
            return None
        return "0" if match[1] == "-0" else match[1]
    if SCIENTIFIC.fullmatch(text):
        return None
    lowercase = text.lower()
    return lowercase if lowercase in LABELS else text


def _canonical_fraction(value: float | Decimal) -> str | None:
    if isinstance(value, Decimal):
        return _canonical_decimal(value)
    if math.isnan(value):
        return ""
    if abs(value) >= EXACT:
        return None
    return str(int(value)) if value.is_integer() else repr(value)


def _canonical_decimal(value: Decimal) -> str | None:
    if not value.is_finite():
        return "" if value.is_nan() else None
    if value == value.to_integral_value():
        return str(int(value))
    rounded = float(value)
    return repr(rounded) if Decimal(repr(rounded)) == value else format(value.normalize(), "f")
