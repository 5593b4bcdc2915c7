"""The task of texts: the class of each, or any number of classes."""

from typing import Annotated, Literal

import annotated_types
from pydantic import Field

from nightshift.config.classes import Group, ItemClassConfig, ItemSimulator, ItemTaskConfig
from nightshift.config.columns import Holds, LabeledColumns
from nightshift.config.section import Factor, Positive, Share
from nightshift.config.task import CandidateConfig, CandidateName


class TextModel(CandidateConfig):
    """A model that takes tokens; `nightshift/tasks/texts/candidates.py` fits each kind."""

    kind: Literal["bert", "tfidf"]


class TextTaskConfig(ItemTaskConfig):
    """The classes of each text."""

    kind: Literal["text-classification"]
    length: Annotated[int, annotated_types.Interval(ge=8, le=8192)] = Field(128, description="tokens networks see")
    tokenizer: str | None = Field(
        None,
        description="path or URI of a tokenizer.json, which pretrained networks have, or "
        "hf://organization/name@commit; null: words, by their hashes",
    )
    vocabulary: Annotated[int, annotated_types.Interval(ge=3, le=10_000_000)] = Field(
        30_000, description="numbers that hashed words get; a tokenizer has its own"
    )
    max_characters: Annotated[int, annotated_types.Interval(ge=1, le=100_000_000)] = Field(
        100_000, description="of a text, above which it is quarantined"
    )
    near_duplicates: Annotated[float, annotated_types.Interval(ge=0.5, le=0.95)] | None = Field(
        None,
        description="share of 5-character parts in common with an earlier text of its day, at or above which a text is "
        "quarantined; null: only the same bytes are",
    )
    candidates: dict[CandidateName, TextModel] = Field(min_length=1, description="name -> what to train")


class TextColumns(LabeledColumns):
    """The user's column name for each role of a text."""

    text: Annotated[str, Holds.TEXT] = Field(description="text, or its bytes in UTF-8")
    group: Group = None


class TextSimulator(ItemSimulator):
    """Texts of some topics."""

    words: Positive = Field(14, description="of a text, on average, before any drift")
    length_factor: Factor = Field(1.0, description="on words of a text, from drift_from")
    new_words: Share = Field(0.0, description="share of words that are, from drift_from, others than before")


class TextConfig(ItemClassConfig):
    """A use case whose events are texts."""

    columns: TextColumns
    simulator: TextSimulator = TextSimulator()
    task: TextTaskConfig
