"""What programs are answered where no step writes it: runs, models, costs, removals, plans and measurements."""

from datetime import date, datetime
from enum import StrEnum
from typing import Any

from pydantic import Field

from nightshift.contracts.artifact import Artifact, Part
from nightshift.contracts.profile import Finding
from nightshift.contracts.section import Fact
from nightshift.contracts.verdict import Verdict


class ListedVersion(Part):
    """A registered version of a use case's model."""

    use_case: str = Field(description="name in the config")
    version: int = Field(description="its number in the registry")
    champion: bool = Field(description="whether it is the live version")
    train_first: date | None = Field(description="first day of its training data")
    train_last: date | None = Field(description="last day of its training data, inclusive")
    metric: str | None = Field(description="metric that the use case is judged by")
    metric_value: float | None = Field(description="its value on the test days")
    registered_at: datetime = Field(description="UTC")
    live_since: datetime | None = Field(description="when it last became the champion, UTC; null if it never was")


class ModelList(Artifact):
    """`nightshift models --json`."""

    versions: list[ListedVersion] = Field(description="by use case, then number")


class ListedRun(Part):
    """A run of a pipeline."""

    run: str = Field(description="id")
    pipeline: str = Field(description="what it ran")
    use_case: str | None = Field(description="name in the config; null of a pipeline without one")
    logical_date: date | None = Field(description="last complete UTC day of its data; null of a pipeline without one")
    started: datetime = Field(description="UTC")
    complete: bool = Field(description="whether every step went well")
    has_report: bool = Field(description="whether its last step, or `nightshift report`, has written one")


class RunList(Artifact):
    """The runs of a workspace."""

    runs: list[ListedRun] = Field(description="the last to change first")
    problems: list[str] = Field(description="why runs are left out whose records cannot be read")


class DriftCheck(Part):
    """What the gate on drift has decided in a run."""

    run: str = Field(description="id")
    logical_date: date = Field(description="last complete UTC day of its data")
    verdict: Verdict = Field(description="whether the newest rows are like those the model was trained on, and why")


class DriftHistory(Artifact):
    """The verdicts on drift of a use case."""

    use_case: str = Field(description="name in the config")
    checks: list[DriftCheck] = Field(description="of the runs that have measured drift, the last to change first")


class StepCost(Part):
    """What a step of a run has cost."""

    step: str = Field(description="name in the pipeline")
    machine: str | None = Field(description="machine that it ran on; null if the config names none")
    seconds: float | None = Field(description="duration; null if the step did not end")
    usd: float | None = Field(description="US dollars; null without a price")


class RunCost(Part):
    """What a run has cost."""

    run: str = Field(description="id")
    use_case: str = Field(description="name in the config")
    model_version: int | None = Field(description="version that it registered, if any")
    seconds: float = Field(description="of all its steps")
    usd: float | None = Field(description="US dollars; null if a step has no price")
    steps: list[StepCost] = Field(description="in their order")


class RunCosts(Artifact):
    """`nightshift costs --json`, of all runs or of one."""

    runs: list[RunCost] = Field(description="by id")


class CostOffer(Part):
    """The expected cost of a training on one machine."""

    machine: str = Field(description="name with its market, such as `g6.xlarge spot`")
    gpu: str = Field(description="GPU model")
    gpus: int = Field(description="GPUs of the machine")
    hours: float = Field(description="expected duration, with lost work on a spot machine")
    usd: float | None = Field(description="expected US dollars; null without a price")


class CostEstimate(Artifact):
    """`nightshift costs --samples N --measured GPU=RATE --json`."""

    samples: float = Field(description="samples to train on")
    checkpoint_interval_seconds: float = Field(description="time between checkpoints on a spot machine")
    offers: list[CostOffer] = Field(description="cheapest first, those without a price last")


class RemovableKind(StrEnum):
    """What `nightshift gc` removes."""

    VERSION = "version"
    RUN = "run"
    PARTITION = "partition"
    UNFINISHED = "unfinished"
    LEFTOVER = "leftover"


class Removal(Part):
    """Something that is removed, or would be."""

    kind: RemovableKind = Field(description="unfinished: files of a step that did not end; leftover: of a removal")
    name: str = Field(description="number, id or URI")
    since: datetime | None = Field(description="when it was registered, started or last written, UTC")
    size_bytes: int | None = Field(description="size; null of a leftover")


class KeptVersions(Part):
    """Versions that stay for one reason, and what they need."""

    reason: str = Field(description="why they stay, such as `champion`")
    versions: list[int] = Field(description="their numbers")
    runs: list[str] = Field(description="ids of the runs that made them, as far as they exist")
    partitions: int = Field(description="partitions that these runs name")


class Removals(Artifact):
    """`nightshift gc --json`."""

    use_case: str = Field(description="name in the config")
    deleted: bool = Field(description="whether they were removed, or only listed")
    items: list[Removal] = Field(description="what has passed its age and no live model needs")
    kept: list[KeptVersions] = Field(description="what stays for live models")
    problems: list[str] = Field(description="why runs stay whose records cannot be read")


class TrainingPlan(Artifact):
    """`nightshift perf plan --json`."""

    model: str = Field(description="preset, or `custom`")
    gpu: str = Field(description="GPU model")
    gpus: int = Field(description="GPUs of all machines")
    parameters: int = Field(description="parameters of the model")
    layout: dict[str, Any] = Field(description="how work is divided, as in the recipe")
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
    epoch_hours: float | None = Field(description="null without --samples")
    epoch_usd: float | None = Field(description="US dollars; null without --samples and --usd-per-gpu-hour")


class ServingFleet(Part):
    """Machines that serve a demand; times are in seconds."""

    machine: str = Field(description="the cloud's name for the machine")
    market: str = Field(description="`on-demand` or `spot`")
    machines: int = Field(description="number of machines")
    gpu: str = Field(description="GPU model")
    precision: str = Field(description="of weights and cache, `bf16` or `fp8`")
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
    fitted: bool = Field(description="whether servers on this architecture were fitted; if not, Ampere's shares")


class RejectedReplica(Part):
    """A replica that does not meet the objective."""

    gpu: str = Field(description="GPU model")
    precision: str = Field(description="of weights and cache, `bf16` or `fp8`")
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
    fleets: list[ServingFleet] = Field(description="cheapest fleet of each machine and market, the cheapest first")
    rejections: list[RejectedReplica] = Field(description="replicas that do not meet the objective")


class PublishedPrediction(Part):
    """A published figure and the planner's."""

    name: str = Field(description="what was measured")
    role: str = Field(description="`fitted`, or `held out` from fitting")
    quantity: str = Field(description="what was computed, such as `step`")
    unit: str = Field(description="unit of both values")
    value: float = Field(description="published value")
    prediction: float = Field(description="the planner's value")


class PlannerAccuracy(Artifact):
    """`nightshift perf plan --published --json`."""

    figures: list[PublishedPrediction] = Field(description="in the order of the table")


class ScalingRun(Part):
    """A training with one number of processes; durations are of a step."""

    processes: int = Field(description="number of processes")
    rows_per_second: float = Field(description="over all processes")
    efficiency: float = Field(description="speed of a process relative to one alone, 1 is linear scaling")
    step_seconds: float = Field(description="duration of a step")
    computing_seconds: float = Field(description="computing, in the mean")
    data_seconds: float = Field(description="waiting for rows, in the mean")
    waiting_seconds: float = Field(description="waiting for the slowest process, in the mean")
    exchange_seconds: float = Field(description="exposed communication")


class ScalingReport(Artifact):
    """`nightshift perf scale --json`."""

    candidate: str = Field(description="name of the network in the config")
    device: str = Field(description="`cpu` or `cuda`")
    rows: int = Field(description="rows per process and step")
    points: list[ScalingRun] = Field(description="by number of processes")
    findings: list[Finding] = Field(description="what slows the most processes down, the costliest first")


class CollectivePoint(Part):
    """A collective with one tensor size."""

    collective: str = Field(description="such as `all-reduce`")
    size_bytes: int = Field(description="of the whole buffer of a process")
    seconds: float = Field(description="of a call, in the mean of all processes")
    algorithm_bytes_per_second: float = Field(description="the algorithm's bandwidth")
    bus_bytes_per_second: float = Field(description="the bus bandwidth, as nccl-tests defines it")


class CollectiveReport(Artifact):
    """`nightshift perf collectives --json`."""

    backend: str = Field(description="`gloo` or `NCCL`")
    processes: int = Field(description="number of processes")
    points: list[CollectivePoint] = Field(description="by collective, then size")


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


class BackfilledRun(Part):
    """One day of a backfill."""

    date: str = Field(description="logical date, YYYY-MM-DD")
    state: str = Field(description="`complete` (nothing to do), `done`, `resumed` (and done) or `failed`")
    run: str = Field(description="id")
    highlights: list[Fact] = Field(description="of its report; empty without one")


class BackfillReport(Artifact):
    """`nightshift backfill --json`."""

    days: list[BackfilledRun] = Field(description="oldest first; ends with the first that failed")
