"""Quality rules for training texts of a language model; after Rae et al., Gopher, 2021, appendix A.1."""

import unicodedata
from typing import TYPE_CHECKING

import numpy.typing as npt

from nightshift.items import texts
from nightshift.tasks.base import ingestion as base
from nightshift.tasks.texts.ingestion import find_faults
from nightshift_llm.config import LanguageConfig, LanguageTaskConfig
from nightshift_llm.task import chats

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

RUN = 4  # words that a text should not repeat


class IngestionTask(base.IngestionTask):
    """The rules for texts that are worth learning."""

    def faults(self, typed: "pd.DataFrame", config: LanguageConfig) -> "pd.Series":
        reasons, task = find_faults(typed["text"], config.task.max_characters), config.task
        readable = typed.loc[reasons.isna(), "text"]
        reasons[readable.index] = readable.map(lambda text: judge_quality(text, task)).astype(object)
        return reasons

    def near_duplicates(self, contents: "pd.Series", config: LanguageConfig) -> "npt.NDArray[np.bool_]":
        if config.task.chat:  # the JSON around the messages is the same in all
            contents = contents.map(_read_messages)
        return texts.find_repeats(contents, config.task.near_duplicates)

    def rules(self, config: LanguageConfig) -> dict[str, object]:
        names = {"chat", "min_characters", "max_characters", "max_repetition", "max_symbols", "near_duplicates"}
        return config.task.model_dump(include=names)


def _read_messages(text: str) -> str:
    """Return the messages of a chat without the system's, which many chats share."""
    return "\n".join(message.content for message in chats.parse_chat(text) if message.role != "system")


def judge_quality(text: str, task: LanguageTaskConfig) -> str | None:
    """Return the rule that rejects a text: `not_a_chat`, `too_short`, `symbols` or `repetitive`, or None."""
    if task.chat:
        messages = chats.parse_chat(text)
        if not messages:
            return "not_a_chat"
        text = "\n".join(message.content for message in messages)
    if len(text) < task.min_characters:
        return "too_short"
    if measure_symbols(text) > task.max_symbols:
        return "symbols"
    return "repetitive" if measure_repetition(text) > task.max_repetition else None


def measure_symbols(text: str) -> float:
    """Return the share of characters that are neither letters, digits nor spaces, nor marks that letters bear."""
    return sum(map(_is_symbol, text)) / len(text)


def _is_symbol(character: str) -> bool:
    # the vowels of Hindi are marks, and joiners are formats
    is_mark = unicodedata.category(character) in {"Mn", "Mc", "Me", "Cf"}
    return not (character.isalnum() or character.isspace() or is_mark)


def measure_repetition(text: str) -> float:
    """Return the share of runs of `RUN` words that came before in the text; 0 of a shorter one."""
    words = text.split()
    runs = [tuple(words[first : first + RUN]) for first in range(len(words) - RUN + 1)]
    return 1 - len(set(runs)) / len(runs) if runs else 0.0
