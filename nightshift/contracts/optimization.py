"""`optimization.json`: forms of the selected graph that were tried, and the one that goes into the package."""

from typing import Self

from pydantic import Field

from nightshift.contracts.artifact import Artifact, Part
from nightshift.contracts.preprocessing import FileName
from nightshift.contracts.section import Estimate
from nightshift.contracts.verdict import Decision

FILE = "optimization.json"
ORIGINAL = "original"


class Latency(Part):
    """How long a call takes."""

    rows: int = Field(description="of a call")
    median_ms: float = Field(description="of calls that took turns with those of the other forms")


class Attempt(Part):
    """A form of the selected graph."""

    name: str = Field(description="`original`, or how it was made")
    provider: str = Field(description="what runs it, as ONNX Runtime calls it")
    size: int | None = Field(description="bytes of the graph; null where it could not be made")
    loss: Estimate | None = Field(description="of the metric, with its paired 95 % interval")
    flipped: float | None = Field(description="share of the rows on which it decides otherwise than the original")
    latencies: list[Latency] = Field(description="one row, then many; empty where speed was not measured")
    accepted: bool = Field(description="whether it may take the original's place")
    reason: str = Field(description="why, a sentence")


class EngineVariant(Part):
    """The selected candidate's weights as a file for engines that generate text."""

    name: str = Field(description="type of the weights, as llama.cpp calls it: `F16`, `Q8_0` ...")
    file: FileName | None = Field(None, description="its name in a package; null where it could not be made")
    size: int | None = Field(None, description="bytes")
    bits_per_byte: float | None = Field(None, description="of the validation texts")
    added_bits: Estimate | None = Field(
        None, description="bits per byte above those of the first variant, with the paired 95 % interval"
    )
    tokens_per_second: float | None = Field(None, description="generated one after the other, a median")
    decision: Decision = Field(description="of the gate `quantization`")
    reasons: list[str] = Field(description="why, one sentence each")

    @classmethod
    def missing(cls, name: str, reason: str) -> Self:
        """Return a variant that could not be made or measured."""
        return cls(name=name, decision=Decision.UNDECIDED, reasons=[reason])


class Optimization(Artifact):
    """Forms of the selected graph that were tried, and the one that goes into the package."""

    candidate: str = Field(description="the selected candidate, whose graph it is")
    original_sha256: str = Field(description="identity of the model that was given")
    sha256: str = Field(description="identity of the model that goes on")
    rows: int = Field(0, description="validation rows on which the loss was measured")
    metric: str | None = Field(None, description="by which loss is measured; null where nothing was")
    limit: float | None = Field(None, description="what a form may lose of it, at the high end of the interval")
    attempts: list[Attempt] = Field(description="the original first")
    chosen: str = Field(description="name of the attempt that scores from here on")
    engine_variants: list[EngineVariant] = Field([], description="the unquantized one first; none where none is wanted")
    engine_variant: str | None = Field(None, description="name of the one that goes into the package; null: none")
