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
    """A network that predicts tokens; `nightshift/models/recipes` has a file for each kind."""

    kind: Literal["llama"]


class LanguageTaskConfig(TaskConfig):
    """Texts, whose tokens are predicted one after the other."""

    kind: Literal["language-modeling"]
    select_by: Literal["bits_per_byte"] = "bits_per_byte"
    length: Annotated[int, annotated_types.Interval(ge=8, le=131_072)] = Field(
        256, description="sequence length: predicted tokens per row; longer texts take several rows"
    )
    tokenizer: str | None = Field(
        None,
        description="path or URI of a byte-level (ByteLevel) tokenizer.json, or hf://organization/name@commit; null: "
        "each byte is a token",
    )
    start: str = Field("<|endoftext|>", min_length=1, description="beginning-of-text token of the tokenizer")
    chat: bool = Field(
        False, description="true: texts are JSON lists of messages (ChatML); the assistant's messages are learned"
    )
    min_characters: Characters = Field(16, description="minimum length of a text in characters; else quarantined")
    max_characters: Characters = Field(
        1_000_000, description="maximum length of a text in characters; else quarantined"
    )
    max_repetition: Share = Field(
        0.5, description="largest share of repeated word 4-grams in a text; above it, the text is quarantined"
    )
    max_symbols: Share = Field(
        0.3,
        description="largest share of characters other than letters, digits and spaces; else quarantined",
    )
    near_duplicates: Annotated[float, annotated_types.Interval(ge=0.5, le=0.95)] | None = Field(
        None,
        description="share of 5-character parts in common with an earlier text of its day, at or above which a text is "
        "quarantined; null: only the same bytes are",
    )
    max_overlap: Share = Field(
        0.5,
        description="largest share of a text's chunks of about 50 bytes that also occur in training texts; above it, "
        "the text is left out of validation and test",
    )
    candidates: dict[CandidateName, LanguageModel] = Field(min_length=1, description="networks to train, by name")


class LanguageColumns(Columns):
    """The user's column name for each role of a text."""

    text: Annotated[str, Holds.TEXT] = Field(description="the text, as a string or as UTF-8 bytes")
    source: Category = Field(None, description="origin of a text; models are also measured by source")
    license: Category = Field(None, description="license of a text; kept as metadata")
    group: Group = None


class LanguageEvaluationGate(EvaluationGate):
    """The gate a challenger has to pass."""

    tolerance: Effect = Field(
        0.02, description="bits per byte by which a newer model may be worse, at the low end of the 95 % interval"
    )
    min_rows: Positive = Field(100, description="minimum number of test texts for a decision")
    max_bits_per_byte: Effect = Field(8.0, description="highest bits per byte that pass; a uniform guess scores 8")
    max_memorized: Share | None = Field(
        None,
        description="largest share of training passages that a passing model reproduces verbatim; null: it is only "
        "reported",
    )


class LanguageServedFiles(ServedGraph):
    """The served graph variant, and the GGUF file that generates text."""

    weight_types: list[Literal["Q8_0", "Q6_K", "Q5_K_M", "Q5_0", "Q4_K_M", "Q4_0"]] = Field(
        [],
        description="quantization types of llama.cpp to try besides F16; the smallest file that passes is packaged; "
        "[]: no GGUF file, not even F16",
    )
    max_added_bits: Share = Field(0.02, description="limit of a type's relative increase in bits per byte over F16")


class LanguageDriftLimits(EmbeddingDriftLimits):
    """Effect sizes above which something counts as drifted."""

    bits_per_byte: Effect = Field(
        0.1, description="limit of the rise over the reference value on new texts, bits per byte"
    )
    min_rows: Positive = Field(100, description="minimum number of texts to apply that limit")


class LanguageConfig(Config):
    """A use case whose events are texts without labels."""

    columns: LanguageColumns
    simulator: TextSimulator = TextSimulator()
    task: LanguageTaskConfig
    evaluation: LanguageEvaluationGate = LanguageEvaluationGate()
    optimization: LanguageServedFiles = LanguageServedFiles()
    drift: LanguageDriftLimits = LanguageDriftLimits()
