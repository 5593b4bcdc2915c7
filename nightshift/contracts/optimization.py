"""`optimization.json`: forms of the selected graph that were tried, and the one that goes into the package."""

from pydantic import Field

from nightshift.contracts.artifact import Artifact, Part
from nightshift.contracts.section import Estimate

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
