"""What the commands of `nightshift perf` print as JSON."""

from typing import Any

from pydantic import Field

from nightshift.contracts.artifact import Artifact, Part
from nightshift.contracts.profile import Finding


class TrainingPlan(Artifact):
    """`nightshift perf plan --json`."""

    model: str = Field(description="preset, or `custom`")
    gpu: str = Field(description="GPU model")
    gpus: int = Field(description="GPUs of all machines")
    parameters: int = Field(description="parameters of the model")
    layout: dict[str, Any] = Field(description="how work is divided, in the flags' terms")
    memory_bytes: float = Field(description="of a GPU")
    states_bytes: float = Field(description="of it weights, gradients and optimizer states")
    activations_bytes: float = Field(description="of it activations")
    gpu_memory_bytes: float = Field(description="what a GPU has")
    step_seconds: float = Field(description="duration of a step")
    throughput_per_gpu: float = Field(description="tokens or samples per second of a GPU")
    throughput_unit: str = Field(description="`tokens` or `samples`")
    mfu: float = Field(description="model FLOPs utilization, 0 to 1")
    bubble_share: float = Field(description="share of a step that is pipeline bubble, 0 to 1")
    exposed_communication_share: float = Field(description="share of a step in communication that is not hidden")
    architecture: str = Field(description="the GPU's, such as `hopper`")
    fitted: bool = Field(description="whether trainings on this architecture were fitted; if not, Ampere's shares")
    error_median: float = Field(description="median error of published speeds, each by a fit without its source")
    error_p90: float = Field(description="90th percentile of the same")
    epoch_hours: float | None = Field(description="null without --samples")
    epoch_usd: float | None = Field(description="US dollars; null without --samples and --usd-per-gpu-hour")


class ServingFleet(Part):
    """Machines that serve a demand; times are in seconds."""

    machine: str = Field(description="the cloud's name for the machine")
    market: str = Field(description="`on-demand` or `spot`")
    machines: int = Field(description="number of machines")
    gpu: str = Field(description="GPU model")
    precision: str = Field(description="`bf16`, `fp8`, or `int4` weights with a cache of `bf16`")
    tensor: int = Field(description="GPUs of a replica, which share each layer")
    replicas: int = Field(description="copies of the model that the rate takes")
    concurrency: int = Field(description="requests in flight per replica")
    weights_bytes: float = Field(description="weights on a GPU")
    cache_tokens: int = Field(description="tokens whose keys and values fit in a replica")
    idle_first_token_seconds: float = Field(description="time to the first token of a request that waits for nobody")
    first_token_seconds: float = Field(description="mean time to the first token")
    first_token_p99_seconds: float = Field(description="99th percentile of the time to the first token")
    token_seconds: float = Field(description="mean time per further token")
    tokens_per_second_per_gpu: float = Field(description="output tokens per second of a GPU")
    usd_per_hour: float = Field(description="US dollars per hour of all machines")
    usd_per_million_tokens: float = Field(description="US dollars per million output tokens at the rate")
    price_date: str = Field(description="day of the price")
    fitted: bool = Field(description="whether servers of this architecture and precision were fitted")


class RejectedReplica(Part):
    """A replica that does not meet the objective."""

    gpu: str = Field(description="GPU model")
    precision: str = Field(description="`bf16`, `fp8`, or `int4` weights with a cache of `bf16`")
    tensor: int = Field(description="GPUs that share each layer")
    reason: str = Field(description="why, with the figure and its limit")


class ServingPlan(Artifact):
    """`nightshift perf plan --serve --json`."""

    model: str = Field(description="preset, or path of the config.json")
    parameters: int = Field(description="parameters of the model")
    prompt_tokens: int = Field(description="tokens in of a request")
    output_tokens: int = Field(description="tokens out of a request")
    requests_per_second: float = Field(description="rate of requests")
    first_token_limit_seconds: float = Field(description="limit of the 99th percentile of the time to the first token")
    token_limit_seconds: float = Field(description="limit of the mean time per further token")
    throughput_error_median: float = Field(
        description="median error in tokens/s at publishers left out of the fit, as a share"
    )
    throughput_error_p90: float = Field(description="90th percentile of the same error")
    fleets: list[ServingFleet] = Field(description="cheapest fleet of each machine and market, the cheapest first")
    rejections: list[RejectedReplica] = Field(description="replicas that do not meet the objective")


class PublishedPrediction(Part):
    """A published figure and the planner's."""

    name: str = Field(description="what was measured")
    quantity: str = Field(description="what was computed, such as `step`")
    unit: str = Field(description="unit of both values")
    value: float = Field(description="published value")
    prediction: float = Field(description="the planner's value")
    unseen: float = Field(description="the same by a fit that has not seen the figure's source")


class PlannerAccuracy(Artifact):
    """`nightshift perf plan --published --json`."""

    figures: list[PublishedPrediction] = Field(description="in the order of the table")


class ScalingRun(Part):
    """A training with one number of processes; durations are of a step, in the mean of the processes."""

    processes: int = Field(description="number of processes")
    replicas: int = Field(description="copies of the network")
    rows_per_second: float = Field(description="over all processes")
    efficiency: float = Field(description="speed of a process, or of a core that several share, relative to the first")
    step_seconds: float = Field(description="duration of a step, the sum of what follows")
    computing_seconds: float = Field(description="computing")
    loading_seconds: float = Field(description="waiting for rows")
    bubble_seconds: float = Field(description="waiting for other stages of a pipeline; 0 on shared cores")
    waiting_seconds: float = Field(description="waiting for the slowest process")
    sharing_seconds: float = Field(description="waiting for other processes on the same core")
    exchange_seconds: float = Field(description="exposed communication")
    bubble_share: float | None = Field(
        description="share of the pipeline's time that its stages wait, of measured pieces in their order, as if each "
        "process had a core; null without a pipeline"
    )
    bubble_formula: float | None = Field(
        description="(p - 1) / (v m + p - 1); null without a pipeline, and for zero-bubble"
    )


class ScalingFinding(Finding):
    """What keeps a training from scaling, with the setting that helps."""

    setting: str = Field("", description="key of the config to change; empty where there is none")
    value: Any = Field(None, description="what to set it to")
    expected_gain_pct: float | None = Field(description="more rows per second with it; null where only trying tells")
    measured_gain_pct: float | None = Field(
        None, description="the same, measured beside the config's setting; null without --check"
    )
    faster: bool | None = Field(None, description="whether it is, not by chance; null if undecided or not measured")
    refused: str = Field("", description="why it was not measured; empty if it was, or without --check")

    @property
    def axis(self) -> str:
        """The setting's name in `nightshift perf tune`; empty without one."""
        return self.setting.rpartition(".")[2]


class ScalingReport(Artifact):
    """`nightshift perf scale --json`."""

    candidate: str = Field(description="name of the network in the config")
    device: str = Field(description="`cpu` or `cuda`")
    rows: int = Field(description="rows per process and step")
    layout: str = Field(description="how processes share the network, as in `task.trainer`; empty for replicas")
    points: list[ScalingRun] = Field(description="by number of processes")
    findings: list[ScalingFinding] = Field(description="what slows the most processes down, the costliest first")
    caveats: list[str] = Field(description="what the figures do not say")


class TuningTrial(Part):
    """A value of a setting, compared with the best before."""

    axis: str = Field(description="setting that was varied")
    value: Any = Field(description="what it was set to")
    rows_per_second: float | None = Field(description="null if it was not measured")
    gain: float | None = Field(description="speed relative to the best before, less 1; null if it was not measured")
    faster: bool | None = Field(description="whether it is faster, not by chance; null if undecided or not measured")
    refused: str = Field(description="why it was not measured; empty if it was")


class TuningReport(Artifact):
    """`nightshift perf tune --json`."""

    candidate: str = Field(description="name of the network in the config")
    device: str = Field(description="`cpu` or `cuda`")
    rows: int = Field(description="rows that were trained on")
    trials: list[TuningTrial] = Field(description="in their order")
    gain: float | None = Field(description="speed of the best relative to the config's, less 1; null if none is faster")
    changes: dict[str, Any] = Field(description="setting -> its fastest value, where it differs from the config's")


class TimeChange(Part):
    """A time of a step before and after, means over the paired steps in milliseconds."""

    name: str = Field(description="`step`, a part of it, a kernel, or an operation of the host")
    before_ms: float = Field(description="before")
    after_ms: float = Field(description="after")
    saved_ms: float = Field(description="before less after; below 0 where it takes longer now")
    interval_ms: tuple[float, float] | None = Field(
        description="of what is saved, 95 %, a bootstrap of the pairs; null for a single pair"
    )


class FindingChange(Part):
    """What a finding costs of each step, milliseconds."""

    title: str = Field(description="of the finding")
    before_ms: float = Field(description="before; 0 where it is not reported")
    after_ms: float = Field(description="after; 0 where it is not reported")
    stated_ms: tuple[float, float] | None = Field(
        description="what the profile before says can be won, from and to; null where it says nothing"
    )


class TraceChanges(Artifact):
    """`nightshift perf profile --before A --after B --json`, and `changes.json`."""

    before: list[str] = Field(description="traces")
    after: list[str] = Field(description="traces")
    pairs: int = Field(description="steps of each that are compared, in their order")
    step: TimeChange = Field(description="the whole step")
    verdict: str = Field(description="`faster` or `slower` where the interval excludes 0, else `undecided`")
    parts: list[TimeChange] = Field(description="of the step of the slowest GPU, the largest change first")
    operations: list[TimeChange] = Field(description="kernels, or operations of the host without a GPU; the same order")
    findings: list[FindingChange] = Field(description="those with a cost, in the order of the first profile")
    caveats: list[str] = Field(description="what the traces do not say")


# file name of the schema -> what a command prints
ARTIFACTS: dict[str, type[Artifact]] = {
    "planner_accuracy": PlannerAccuracy,
    "scaling_report": ScalingReport,
    "serving_plan": ServingPlan,
    "trace_changes": TraceChanges,
    "training_plan": TrainingPlan,
    "tuning_report": TuningReport,
}
