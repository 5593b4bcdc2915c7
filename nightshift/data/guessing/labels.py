"""Which column is predicted: one of two values, of which some are positive, one of several classes, or of numbers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pandas as pd

from nightshift.data.guessing import words
from nightshift.data.guessing.profiles import ColumnProfile
from nightshift.runtime.errors import UserError

MOST_CLASSES = 10  # classes of a column that is listed where none has two
MOST_VALUES = 50  # listed values of a label
NUMBERS = (["0", "1"], ["-1", "1"])  # 1 is the positive class


@dataclass(frozen=True)
class BinaryLabel:
    """A label's values.

    Attributes:
        known: 1 and 0 as float64, NaN where it is not known.
        positive: the values that stand for 1; [] where these are 1 and true.
        negative: those that stand for 0.
    """

    known: pd.Series
    positive: list[str]
    negative: list[str]

    @property
    def settings(self) -> dict[str, list[str]]:
        """What `source.format` says of them."""
        return {"positive": self.positive, "negative": self.negative}


def is_number(column: ColumnProfile) -> bool:
    """Return whether a column holds numbers that are no classes: more than `MOST_CLASSES`."""
    return column.kind in ("whole", "number") and column.distinct > MOST_CLASSES


def list_classes(column: ColumnProfile) -> list[str]:
    """Return the values of a column of three to `MOST_CLASSES` of them, or of so many texts; [] of any other."""
    most = {"whole": MOST_CLASSES, "text": MOST_VALUES}.get(column.kind, 0)
    texts = _texts(column).dropna()
    is_several = 2 < column.distinct <= most and texts.str.lower().nunique() > 2
    return sorted(texts.unique()) if is_several else []


def number_classes(column: ColumnProfile, classes: list[str]) -> pd.Series:
    """Return the number of each row's class as float64, NaN where it is not known."""
    return _texts(column).map({name: float(number) for number, name in enumerate(classes)}).astype(float)


def find(columns: Mapping[str, ColumnProfile]) -> str:
    """Return the column of two values whose name or values say that it is an outcome, or else of numbers or classes.

    Raises:
        UserError: when none does, or several do alike.
    """
    pairs = [name for name, column in columns.items() if _is_pair(column)]
    numbers = [
        name for name, column in columns.items() if is_number(column) and words.has_any(name, words.NUMBER_LABEL)
    ]
    classes = [
        name for name, column in columns.items() if words.has_any(name, words.CLASS_LABEL) and list_classes(column)
    ]
    named = [name for name in pairs if words.has_any(name, words.LABEL)]
    tests: list[Callable[[str], bool]] = [
        lambda name: name in named and _is_truth(columns[name]),
        lambda name: name in named,
        lambda name: name in numbers or (name in pairs and _is_truth(columns[name])),
        lambda name: name in classes,
    ]
    candidates = next((names for test in tests if (names := [*filter(test, [*pairs, *numbers, *classes])])), [])
    if len(candidates) == 1:
        return candidates[0]
    few = [name for name, column in columns.items() if 2 < column.distinct <= MOST_CLASSES]
    fault = "several columns may be what is predicted" if candidates else "no column is plainly what is predicted"
    listed = ", ".join(candidates or [*pairs, *few] or columns)[:300]
    raise UserError(
        f"{fault}; give --label with one of {listed}, and --positive VALUE for what counts as positive, if it is "
        "neither 1, true nor yes"
    )


def read(column: ColumnProfile, chosen: tuple[str, ...]) -> BinaryLabel:
    """Return a label's values.

    Args:
        column: of any kind.
        chosen: the values that somebody has said are positive.

    Raises:
        UserError: when they are not in the column, or it has more than two values and none is said to be positive.
    """
    texts = _texts(column)
    present = sorted(texts.dropna().unique()) if column.distinct <= MOST_VALUES else []
    if unknown := sorted(set(chosen) - set(present)):
        raise UserError(f"--positive: column {column.name!r} has no {unknown[0]!r}; it has {', '.join(present)[:300]}")
    positive = list(chosen) or _find_positive(column, texts)
    if not positive:
        values = ", ".join(present[:10]) or f"such as {texts.dropna().iloc[0]}"
        raise UserError(
            f"column {column.name!r} has {column.distinct:,} values, {values}; give --positive VALUE for each that "
            f"counts as positive, or --label with another column: a label is one of two values, a class of up to "
            f"{MOST_VALUES}, or a number of more than {MOST_CLASSES} values"
        )
    negative = [text for text in present if text not in positive]
    known = texts.isin(positive).astype(float).mask(texts.isna())
    is_plain = set(positive) <= {"1", "true"} and set(negative) <= {"0", "false"}
    return BinaryLabel(known, [], []) if is_plain else BinaryLabel(known, positive, negative)


def _find_positive(column: ColumnProfile, texts: pd.Series) -> list[str]:
    """Return which of two values is the yes, or the rarer word; [] of numbers such as 1 and 2, which mean either."""
    present = sorted(texts.dropna().unique())
    if not _is_pair(column) or (column.kind != "text" and present not in NUMBERS):
        return []
    yes = [text for text in present if _is_yes(text)]
    return yes if 0 < len(yes) < len(present) else [str(texts.value_counts().index[-1])]


def _is_pair(column: ColumnProfile) -> bool:
    """Return whether a column has two values, however they are capitalized."""
    if column.kind in ("time", "empty") or column.distinct > 2 * len("yY"):
        return False
    return _texts(column).str.lower().nunique() == 2


def _is_truth(column: ColumnProfile) -> bool:
    """Return whether two values are a yes and a no."""
    present = _texts(column).dropna().unique()
    return any(map(_is_yes, present)) and any(text.lower() in words.NEGATIVE | words.MISSING for text in present)


def _is_yes(text: str) -> bool:
    """Return whether a value says yes, or names an outcome, such as `charged back`, and not that it is none."""
    is_outcome = words.has_any(text, words.LABEL) and not words.has_any(text, words.NEGATION)
    return text.lower() in words.POSITIVE or is_outcome


def _texts(column: ColumnProfile) -> pd.Series:
    """Return values as a config names them."""
    plain = column.typed.map(lambda value: f"{value:g}" if isinstance(value, float) else str(value), na_action="ignore")
    return plain.astype("string")
