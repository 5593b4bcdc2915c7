"""`profile.json`: of the step, which trains the selected model again, or of traces that were recorded elsewhere."""

from enum import StrEnum
from typing import Literal

from pydantic import Field

from nightshift.contracts.artifact import Artifact, Part

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


class ScoringSpeed(Part):
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


class Activity(Part):
    """How much of the GPU was used while it was sampled, a mean in per cent."""

    samples: int
    sm_pct: float = Field(description="multiprocessors with work; before Hopper the share of time with any kernel")


class Finding(Part):
    """Something to change: what it is, what says so, what helps."""

    title: str = Field(description="a few words")
    won_ms: float | None = Field(
        description="milliseconds of each step that it costs, so at most what is won; null where only trying tells"
    )
    won_pct: float | None = Field(description="the same as a share of the step, 0 to 100")
    evidence: str = Field(description="what the trace says, a sentence with figures")
    fix: str = Field(description="what to change, as a sentence")
    settings: list[str] = Field(
        [],
        description="what to try, a key or `KEY=VALUE`: of the config the trainer's, or a candidate's parameters; of a "
        "program's DataLoader its arguments",
    )
    gain_ms: tuple[float, float] | None = Field(
        None, description="what the fix wins of each step, ms, from and to, 95 %; null where only trying tells"
    )


class Profile(Artifact):
    """What it costs to train and to ask the selected model."""

    model: str = Field(description="name of the selected candidate")
    kind: str = Field(description="its kind, as in the config")
    device: str = Field(description="`cpu` or `cuda`")
    rows: int = Field(description="training rows")
    phases: list[Phase] = Field(description="in their order")
    rows_per_second: float = Field(description="training rows per second of the fit, however often it passes over them")
    data_wait_share: float = Field(description="share of read, matrix and fit before the fit has its rows, 0 to 1")
    scoring: list[ScoringSpeed] = Field(description="one row per call, then many")
    activity: Activity | None = Field(description="of the GPU during the fit; null without one, or without NVML")
    peak_memory_bytes: int = Field(
        description="on the CPU of the process, on the GPU of PyTorch's allocations or else all that is in use there"
    )
    reproduced: bool = Field(description="whether this fit gave the same graph, to the byte, as the training")
    top_operations: list[Operation] = Field(description="of the fit: those with the most time of their own")
    diagnosis: str = Field(description="what the figures say, a sentence")
    findings: list[Finding] = Field(description="of the GPU's trace, what would win most first; empty on the CPU")


class StepShare(Part):
    """A part of the step of one GPU, or of a process without one; the parts add up to the mean of the steps."""

    name: str = Field(description="what the GPU does, or why it does nothing")
    ms: float = Field(description="milliseconds of each step")
    pct: float = Field(description="share of the step, 0 to 100")
    is_idle: bool = Field(description="whether the GPU does nothing")


class Kernel(Part):
    """All runs of one kernel in all traces."""

    name: str
    kind: Literal["computation", "communication"]
    calls: int
    total_ms: float
    mean_us: float
    pct: float = Field(description="share of the time of all kernels, 0 to 100")
    operation: Literal["matrix product", "other", "communication", "unknown"] = Field(
        description="what it does; convolutions and attention are matrix products"
    )
    tensor_cores: bool | None = Field(
        description="whether a matrix product runs on tensor cores; null where nothing tells, or they could not help"
    )
    precision: str | None = Field(description="of its operands, such as `bf16`; null where nothing tells")
    basis: Literal["achieved FLOP/s", "name", "types of operands", "counters"] | None = Field(
        description="what says so; null where nothing does"
    )


class CollectiveTime(Part):
    """All runs of one collective operation of NCCL in all traces."""

    name: str = Field(description="such as `all_reduce`")
    calls: int
    total_ms: float
    bytes: int | None = Field(description="that went in, of all calls; null where the trace does not say")
    bus_gb_per_s: float | None = Field(description="bandwidth on the busiest link, as nccl-tests defines it")


class Rank(Part):
    """One GPU of one trace."""

    source: str = Field(description="the trace")
    rank: int | None = Field(description="of the process; null where the trace does not say")
    process: str = Field(description="as the trace calls it; empty where the trace is of one process")
    device: int
    device_name: str = Field(description="empty where the trace does not say")
    steps: int = Field(description="that are marked in the trace; 0 where none is")
    step_ms: float
    gpu_busy_pct: float
    compute_ms: float = Field(description="milliseconds of each step with kernels that compute")
    data_wait_pct: float
    communication_pct: float
    exposed_communication_pct: float


class MemoryPoint(Part):
    """Memory of one GPU at one moment."""

    at_ms: float = Field(description="milliseconds after the start of the trace")
    allocated_bytes: int = Field(description="of tensors; of PyTorch 1.x, since the trace began")
    reserved_bytes: int = Field(description="that PyTorch holds; 0 where the trace does not say")


class RooflinePoint(Part):
    """A kernel on the roofline."""

    name: str
    flops_per_byte: float = Field(description="floating-point operations per byte")
    tflops: float = Field(description="10^12 floating-point operations per second that it reached")
    ms: float = Field(description="its total time in milliseconds")


class Roofline(Part):
    """What kernels reach beside what their GPU can do."""

    device: str = Field(description="as the hardware table names it")
    peak_tflops: float = Field(description="of the precision, without sparsity, 10^12 per second")
    bandwidth_gb_per_s: float = Field(description="of its memory, 10^9 bytes per second")
    precision: str
    source: str = Field(description="data sheet and its date")
    basis: str = Field(description="how operations and bytes were counted")
    points: list[RooflinePoint] = Field(description="largest total time first")


class ScalingPoint(Part):
    """Measured and fitted step time with one number of GPUs."""

    world_size: int
    step_ms: float
    compute_ms: float
    communication_ms: float = Field(description="that is exposed")
    residual_ms: float = Field(description="host, data and all else")
    fitted_ms: float
    efficiency: float = Field(
        description="time of the smallest size over this one's, for the same work per GPU; 1 is perfect"
    )


class Scaling(Part):
    """How step time grows with the number of GPUs, for the same work on each."""

    points: list[ScalingPoint] = Field(description="in order of world size")
    alpha_ms: float = Field(description="milliseconds of each hop of the ring (latency)")
    ring_ms: float = Field(description="milliseconds that all data takes once around a long ring (bandwidth)")
    compute_ms: float = Field(description="per step, the same with any number")
    residual_ms: float = Field(description="host, data and all else, per step")
    serial_share: float = Field(description="Amdahl's serial share for the same total work, Karp-Flatt, 0 to 1")
    largest_speedup: float | None = Field(description="1 / serial share, by Amdahl's law; null where it is unlimited")


class TraceProfile(Artifact):
    """`profile.json` of traces: where the time of a step goes, and what would win it back.

    Shares are of the time from the first marked step to the last one, or of the whole trace where none is marked;
    of several GPUs they are means.
    """

    sources: list[str] = Field(description="the traces")
    step_ms: float | None = Field(description="from one step to the next, the median; null where none is marked")
    gpu_busy_pct: float | None = Field(description="with any work; null without a GPU")
    data_wait_pct: float = Field(description="the host waits for its data loader, whatever the GPU does")
    communication_pct: float = Field(description="kernels that move data between ranks")
    exposed_communication_pct: float = Field(description="of that, without any computation at the same time")
    tensor_core_pct: float | None = Field(
        description="share of the time of matrix products, where it is known, that is spent on tensor cores; "
        "null where nothing is known"
    )
    unknown_pct: float = Field(
        description="share of the time of kernels that compute, of which nothing tells what they are or where they run"
    )
    mfu_pct: float | None = Field(description="floating-point operations of a step over what the GPU could do")
    diagnosis: list[Finding] = Field(description="what would win most comes first")
    breakdown: list[StepShare] = Field(description="of the slowest GPU")
    top_kernels: list[Kernel]
    top_operations: list[Operation] = Field(description="of PyTorch on the host, or ranges where there are none")
    collectives: list[CollectiveTime]
    step_times_ms: list[float] = Field(description="of the first trace, in order")
    gpu_busy_over_time: list[float] = Field(description="of the first GPU, in equal parts of the window, 0 to 100")
    memory: list[MemoryPoint] = Field(description="of the first GPU with any")
    ranks: list[Rank] = Field(description="one per trace and GPU")
    imbalance_pct: float | None = Field(description="computation of the slowest GPU above the mean; null for one GPU")
    roofline: Roofline | None
    scaling: Scaling | None = Field(description="of traces of at least two world sizes")
    caveats: list[str] = Field(description="what the traces do not say")
