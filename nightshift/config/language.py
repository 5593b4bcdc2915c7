"""The task of language models: each token of a text from those before it."""

from typing import Annotated, Literal

import annotated_types
from pydantic import Field

from nightshift.config.classes import Group
from nightshift.config.columns import Columns, Holds
from nightshift.config.policy import Effect, EmbeddingDriftLimits, EvaluationGate, ServedGraph
from nightshift.config.section import Positive, Share
from nightshift.config.task import CandidateConfig, CandidateName, TaskConfig
from nightshift.config.texts import TextSimulator
from nightshift.config.usecase import Config

Characters = Annotated[int, annotated_types.Interval(ge=1, le=100_000_000)]
Category = Annotated[str | None, Holds.CATEGORY]


class LanguageModel(CandidateConfig):
    """A network that predicts tokens; `nightshift/neural/recipes` has a file for each kind."""

    kind: Literal["llama"]


class LanguageTaskConfig(TaskConfig):
    """Texts, whose tokens are predicted one after the other."""

    kind: Literal["language-modeling"]
    select_by: Literal["bits_per_byte"] = "bits_per_byte"
    length: Annotated[int, annotated_types.Interval(ge=8, le=131_072)] = Field(
        256, description="tokens of a row, each of which predicts the next one; longer texts take several rows"
    )
    tokenizer: str | None = Field(
        None, description="path or URI of a tokenizer.json that encodes bytes (ByteLevel); null: a token is a byte"
    )
    start: str = Field("<|endoftext|>", min_length=1, description="token of the tokenizer that begins a text")
    chat: bool = Field(
        False, description="true: texts are JSON lists of messages (ChatML), of which the assistant's are learned"
    )
    min_characters: Characters = Field(16, description="of a text, below which it is quarantined")
    max_characters: Characters = Field(1_000_000, description="of a text, above which it is quarantined")
    max_repetition: Share = Field(
        0.5, description="share of a text's runs of four words that came before in it, above which it is quarantined"
    )
    max_symbols: Share = Field(
        0.3, description="share of characters that are no letters, digits or spaces, above which it is quarantined"
    )
    near_duplicates: Annotated[float, annotated_types.Interval(ge=0.5, le=0.95)] | None = Field(
        None,
        description="share of 5-character parts in common with an earlier text of its day, at or above which a text is "
        "quarantined; null: only the same bytes are",
    )
    max_overlap: Share = Field(
        0.5,
        description="share of a text's parts of about 50 bytes that training texts have too, above which it is neither "
        "validated nor tested on",
    )
    candidates: dict[CandidateName, LanguageModel] = Field(min_length=1, description="name -> what to train")


class LanguageColumns(Columns):
    """The user's column name for each role of a text."""

    text: Annotated[str, Holds.TEXT] = Field(description="text, or its bytes in UTF-8")
    source: Category = Field(None, description="where a text comes from; models are also measured by source")
    license: Category = Field(None, description="under which a text may be used; carried along")
    group: Group = None


class LanguageEvaluationGate(EvaluationGate):
    """The gate a challenger has to pass."""

    tolerance: Effect = Field(
        0.02, description="bits per byte that a fresher model may lose, at the low end of the 95 % interval"
    )
    min_rows: Positive = Field(100, description="test texts that are needed to decide")
    max_bits_per_byte: Effect = Field(8.0, description="above which no model passes; 8 are as many as guessing takes")
    max_memorized: Share | None = Field(
        None,
        description="share of training passages that are given back word for word, above which no model passes; "
        "null: it is only reported",
    )


class LanguageServedFiles(ServedGraph):
    """Which form of the graph scores, and which file generates text."""

    weight_types: list[Literal["Q8_0", "Q6_K", "Q5_K_M", "Q5_0", "Q4_K_M", "Q4_0"]] = Field(
        [],
        description="of llama.cpp, tried beside F16; the smallest file that passes is packaged; []: none, nor F16",
    )
    max_added_bits: Share = Field(0.02, description="share of F16's bits per byte that a type may add")


class LanguageDriftLimits(EmbeddingDriftLimits):
    """Effect sizes above which something counts as drifted."""

    bits_per_byte: Effect = Field(0.1, description="above the model's promise, on new texts")
    min_rows: Positive = Field(100, description="texts needed to apply that limit")


class LanguageConfig(Config):
    """A use case whose events are texts without labels."""

    columns: LanguageColumns
    simulator: TextSimulator = TextSimulator()
    task: LanguageTaskConfig
    evaluation: LanguageEvaluationGate = LanguageEvaluationGate()
    optimization: LanguageServedFiles = LanguageServedFiles()
    drift: LanguageDriftLimits = LanguageDriftLimits()
