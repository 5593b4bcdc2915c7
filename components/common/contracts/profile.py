"""`profile.json`: what it costs to train and to ask the selected model, measured by training it again."""

from enum import StrEnum

from pydantic import Field

from components.common.contracts.artifact import Artifact, Part

FILE = "profile.json"
TRACE = "trace.json.gz"


class PhaseName(StrEnum):
    """What is done one after the other."""

    READ = "read"
    MATRIX = "matrix"
    FIT = "fit"
    EXPORT = "export"
    SCORE = "score"


class Phase(Part):
    """A phase of the training."""

    name: PhaseName = Field(description="`score`: all training rows, with ONNX Runtime")
    seconds: float = Field(description="wall time, without any instrument attached")


class Scoring(Part):
    """How fast the exported graph scores, with ONNX Runtime, as it is served."""

    batch: int = Field(description="rows per call")
    rows_per_second: float


class Operation(Part):
    """An operation's own time, without that of the operations it calls."""

    name: str = Field(description="PyTorch's operation, a CUDA kernel, or a Python function as `file:name`")
    calls: int = Field(description="how often it ran in the part that was profiled")
    self_cpu_ms: float = Field(description="milliseconds on the CPU")
    self_device_ms: float | None = Field(description="milliseconds on the GPU; null without one")
    share: float = Field(description="of the own time of all operations, on the GPU if there is one; 0 to 1")


class Profile(Artifact):
    """What it costs to train and to ask the selected model."""

    model: str = Field(description="name of the selected candidate")
    kind: str = Field(description="its kind, as in the config")
    device: str = Field(description="`cpu` or `cuda`")
    rows: int = Field(description="training rows")
    phases: list[Phase] = Field(description="in their order")
    rows_per_second: float = Field(description="training rows per second of the fit, however often it passes over them")
    data_wait_share: float = Field(description="share of read, matrix and fit before the fit has its rows, 0 to 1")
    scoring: list[Scoring] = Field(description="one row per call, then many")
    peak_memory_bytes: int = Field(
        description="on the CPU of the process, on the GPU of PyTorch's allocations or else all that is in use there"
    )
    reproduced: bool = Field(description="whether this fit gave the same graph, to the byte, as the training")
    top_operations: list[Operation] = Field(description="of the fit: those with the most time of their own")
    diagnosis: str = Field(description="what the figures say, a sentence")
