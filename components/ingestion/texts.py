"""The rules for texts."""

from typing import Any
from unicodedata import category

import pandas as pd

from components.common.config.classes import Texts

# Unicode's general categories of spaces, controls and what has no width, such as a mark of direction
BLANK = ("Zs", "Zl", "Zp", "Cc", "Cf")


def contents(column: pd.Series) -> pd.Series:
    """Return texts without a byte order mark; bytes where they are no UTF-8, null where there is nothing."""
    return column.astype(object).map(_content)


def faults(contents: pd.Series, task: Texts) -> pd.Series:
    """Return for each text the rule that rejects it, or null."""
    return contents.map(lambda content: _fault(content, task)).astype(object)


def _content(value: Any) -> Any:
    if isinstance(value, str):  # which may hold half of a surrogate pair, as JSON can name one
        value = value.encode(errors="surrogatepass")
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode("utf-8-sig")
    except UnicodeDecodeError:
        return value


def _fault(content: Any, task: Texts) -> str | None:
    if isinstance(content, bytes):
        return "invalid_utf8"
    if not isinstance(content, str):
        return "empty"
    if "\0" in content:  # a file that is no text
        return "binary"
    if len(content) > task.max_characters:
        return "too_long"
    return "empty" if all(category(character) in BLANK for character in content) else None
