"""`evaluation.json` of language models."""

from pydantic import Field

from nightshift.contracts.artifact import Part
from nightshift.contracts.evaluation import EvaluationFigures


class LanguageSlice(Part):
    """How well a part of the test texts is predicted."""

    name: str = Field(description="what they have in common")
    rows: int = Field(description="test texts of the part")
    bits_per_byte: float


class MemorizedShare(Part):
    """The share of passages that a language model has memorized."""

    name: str = Field(description="the texts: training, training by source, or test")
    passages: int = Field(description="number of passages, chosen by their hashes")
    share: float = Field(description="share of passages that greedy decoding reproduces verbatim, 0 to 1")
    interval: tuple[float, float] = Field(description="95 % interval, Wilson's")


class Memorization(Part):
    """The passages of texts that a language model reproduces verbatim with greedy decoding."""

    tokens: int = Field(description="tokens of a prompt, and of the continuation that has to match")
    shares: list[MemorizedShare] = Field(description="shares of training texts, of each source, and of test texts")


class LanguageEvaluation(EvaluationFigures):
    """How well a language model's candidates predict the texts of the test days; `evaluation.json` of such a task."""

    left_out: int = Field(description="texts of the test days that have too much in common with training texts")
    bytes: int = Field(description="of all test texts")
    slices: list[LanguageSlice] = Field(description="of the selected candidate: by source, and thirds by bytes")
    memorization: Memorization | None = Field(description="of the selected candidate; null where texts are too short")
