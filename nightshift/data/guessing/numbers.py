"""How numbers are spelled: marks of decimals and thousands, units, texts that stand for no value."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from nightshift.config.source import FileFormat
from nightshift.data.guessing import words
from nightshift.tasks import spelling

Marks = tuple[Literal[".", ","], Literal["", ".", ",", " ", "'"]]  # marks of decimals and of thousands
# the simpler one first: it stays where another reads no more columns
MARKS: list[Marks] = [(".", ""), (",", ""), (".", ","), (",", "."), (",", " "), (".", " "), (".", "'"), (",", "'")]
UNITS = re.compile(r"[€$£¥%]|\b(?:EUR|USD|GBP|CHF|JPY)\b")
AROUND = rf"[\s()\u2212+-]*(?:{UNITS.pattern})?[\s()\u2212+-]*"
LIKE_A_NUMBER = re.compile(rf"{AROUND}[0-9][0-9.,:/ '\u2019\u00a0\u202f+-]*{AROUND}")
ENOUGH = 0.99  # share of a column's values: ingestion quarantines the others, at most 1 % of the rows


@dataclass(frozen=True)
class NumberSpelling:
    """How a table spells numbers.

    Attributes:
        spelled: the marks, units and texts for no value.
        columns: which of its columns hold numbers so.
        reasons: sentences that say what was assumed, and why.
    """

    spelled: FileFormat
    columns: list[str]
    reasons: list[str]


def find_missing(texts: Mapping[str, pd.Series]) -> list[str]:
    """Return the texts that stand for no value: as such, or since all others of their columns are numbers or times."""
    missing = set[str]()
    for column in texts.values():
        distinct = set(column.unique())
        marks, others = distinct & words.MISSING, distinct - words.MISSING
        missing |= marks & words.NULL
        if marks and others and all(LIKE_A_NUMBER.fullmatch(text) for text in others):
            missing |= marks
    return sorted(missing)


def guess(texts: Mapping[str, pd.Series], separator: str) -> NumberSpelling:
    """Return how the columns of texts spell numbers: by the marks that read most columns, and of these most values.

    Args:
        texts: column -> its values that are there, stripped, without those that stand for none.
        separator: of the file's fields, which tells the decimal comma where the values do not.
    """
    units = sorted({unit for column in texts.values() for unit in _units(column)})
    readings = [FileFormat(decimal=decimal, thousands=thousands, units=units) for decimal, thousands in MARKS]
    shares = {mark: _shares_read(texts, reading) for mark, reading in zip(MARKS, readings, strict=True)}
    # where marks read the same columns, those that read more values win: a thousand may be rare
    mark = max(MARKS, key=lambda mark: (len(shares[mark]), sum(shares[mark].values())))
    mark, reasons = _settle(mark, texts, shares, separator)
    columns = list(shares[mark])
    spelled = readings[MARKS.index(mark)]
    used = [unit for unit in units if any(texts[name].str.contains(unit, regex=False).any() for name in columns)]
    if used:
        several = "; if these are several currencies, convert the amounts" if len({*used} - {"%"}) > 1 else ""
        reasons = [*reasons, f"{', '.join(used)} beside numbers is left out{several}."]
    return NumberSpelling(spelled.model_copy(update={"units": used}), columns, reasons)


def _units(column: pd.Series) -> set[str]:
    if not column.map(LIKE_A_NUMBER.fullmatch).notna().all():
        return set()
    return {match[0] for text in column for match in UNITS.finditer(text)}


def _shares_read(texts: Mapping[str, pd.Series], reading: FileFormat) -> dict[str, float]:
    """Return column -> the share of its values that is read as numbers, of columns where that is enough."""
    shares = {name: float(spelling.numbers(column, reading).notna().mean()) for name, column in texts.items()}
    return {name: share for name, share in shares.items() if share >= ENOUGH}


def _settle(
    mark: Marks, texts: Mapping[str, pd.Series], shares: Mapping[Marks, dict[str, float]], separator: str
) -> tuple[Marks, list[str]]:
    """Return the marks, and why: where all of a table's are followed by three digits, 1,234 may be either."""
    rivals: dict[Marks, Marks] = {(",", ""): (".", ","), (".", ""): (",", ".")}
    other = rivals.get(mark)
    example = _example(texts, shares[mark], mark[0])
    if other and example and shares[other] == shares[mark]:
        # a comma within fields that commas separate is nobody's choice for decimals, nor a semicolon that of English
        chosen = other if (mark[0] == ",") == (separator == ",") else mark
        value = spelling.numbers(pd.Series([example]), FileFormat(decimal=chosen[0], thousands=chosen[1]))[0]
        return chosen, [f"Numbers like {example!r} can be read in two ways; this one is read as {value:g}."]
    if mark == (".", ""):
        return mark, []
    thousands = f"{mark[1]!r} between thousands" if mark[1] else "no mark between thousands"
    return mark, [f"Numbers have {mark[0]!r} before their decimals and {thousands}."]


def _example(texts: Mapping[str, pd.Series], columns: Iterable[str], mark: str) -> str:
    """Return a value that has a mark."""
    marked = (text for name in columns for text in texts[name] if mark in text)
    return next(marked, "")
