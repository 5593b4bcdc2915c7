"""The rules for texts."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from nightshift.config.texts import TextConfig
from nightshift.items import texts

if TYPE_CHECKING:
    import pandas as pd


def faults(typed: "pd.DataFrame", config: TextConfig) -> "pd.Series":
    """Return for each row the rule that rejects its content, or null."""
    return find_faults(typed["text"], config.task.max_characters)


def near_duplicates(contents: "pd.Series", config: TextConfig) -> npt.NDArray[np.bool_]:
    """Return which of a day's good texts are nearly an earlier one, (n,); none where the config does not ask."""
    return texts.find_repeats(contents, config.task.near_duplicates)


def rules(config: TextConfig) -> dict[str, object]:
    """Return what decides which rows are good, beside columns and zone."""
    names = {"classes", "min_side", "max_pixels", "max_characters", "near_duplicates"}
    return config.task.model_dump(include=names)


def find_faults(contents: "pd.Series", max_characters: int) -> "pd.Series":
    """Return for each text the rule that rejects it, or null."""
    return contents.map(lambda content: _fault(content, max_characters)).astype(object)


def _fault(content: Any, max_characters: int) -> str | None:
    if isinstance(content, bytes):
        return "invalid_utf8"
    if not isinstance(content, str):
        return "empty"
    return "too_long" if len(content) > max_characters else texts.fault(content)
