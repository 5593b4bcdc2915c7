"""The rules for texts."""

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from nightshift.config.texts import TextConfig
from nightshift.items import texts
from nightshift.tasks.base import ingestion as base

if TYPE_CHECKING:
    import pandas as pd


class IngestionTask(base.IngestionTask):
    """The rules for texts."""

    def faults(self, typed: "pd.DataFrame", config: TextConfig) -> "pd.Series":
        return find_faults(typed["text"], config.task.max_characters)

    def near_duplicates(self, contents: "pd.Series", config: TextConfig) -> npt.NDArray[np.bool_]:
        return texts.find_repeats(contents, config.task.near_duplicates)

    def rules(self, config: TextConfig) -> dict[str, object]:
        names = {"classes", "min_side", "max_pixels", "max_characters", "near_duplicates"}
        separator = {"label_separator"} if config.task.is_multilabel else set[str]()
        return config.task.model_dump(include=names | separator)


def find_faults(contents: "pd.Series", max_characters: int) -> "pd.Series":
    """Return for each text the rule that rejects it, or null."""
    return contents.map(lambda content: _fault(content, max_characters)).astype(object)


def _fault(content: Any, max_characters: int) -> str | None:
    if isinstance(content, bytes):
        return "invalid_utf8"
    if not isinstance(content, str):
        return "empty"
    return "too_long" if len(content) > max_characters else texts.fault(content)
