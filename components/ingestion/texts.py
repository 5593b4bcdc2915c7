"""The rules for texts."""

from typing import Any

import pandas as pd

from components.common.config.classes import Texts


def contents(column: pd.Series) -> pd.Series:
    """Return texts; bytes where they are no UTF-8, null where there is nothing."""
    return column.astype(object).map(_content)


def faults(contents: pd.Series, task: Texts) -> pd.Series:
    """Return for each text the rule that rejects it, or null."""
    return contents.map(lambda content: _fault(content, task)).astype(object)


def _content(value: Any) -> Any:
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _fault(content: Any, task: Texts) -> str | None:
    if isinstance(content, bytes):
        return "invalid_utf8"
    if not isinstance(content, str) or not content.strip():
        return "empty"
    if "\0" in content:  # a file that is no text
        return "binary"
    return "too_long" if len(content) > task.max_characters else None
