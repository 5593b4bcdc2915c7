"""What programs are answered where no step writes it: runs, models, costs, removals, plans and measurements."""

from datetime import date, datetime
from enum import StrEnum

from pydantic import Field

from nightshift.contracts.artifact import Artifact, Part
from nightshift.contracts.drift import ColumnDrift
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
    waits: bool = Field(False, description="whether it has passed its gates and waits for a person's approval")
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
    failed: list[str] = Field([], description="steps that failed")
    has_report: bool = Field(description="whether its last step, or `nightshift report`, has written one")


class RunList(Artifact):
    """The runs of a workspace."""

    runs: list[ListedRun] = Field(description="the last to start first")
    problems: list[str] = Field(description="why runs are left out whose records cannot be read")


class DriftCheck(Part):
    """What the gate on drift has decided in a run."""

    run: str = Field(description="id")
    logical_date: date = Field(description="last complete UTC day of its data")
    verdict: Verdict = Field(description="whether the newest rows are like those the model was trained on, and why")
    drifted: list[ColumnDrift] = Field([], description="the model's inputs that have drifted, and its score")


class DriftedInput(Part):
    """A model input that has drifted, or the score."""

    name: str
    since: date = Field(description="the first of the days on which it has drifted without a break")
    psi: float = Field(description="population stability index on the newest day")
    psi_limit: float
    wasserstein: float | None = Field(description="distance in standard deviations; null where there is none")
    wasserstein_limit: float | None


class DriftHistory(Artifact):
    """The verdicts on drift of a use case."""

    use_case: str = Field(description="name in the config")
    checks: list[DriftCheck] = Field(description="of the runs that have measured drift, the last to start first")
    drifted: list[DriftedInput] = Field([], description="on the newest day, the first to drift first")


class ScoredEvent(Part):
    """An event of the lake, and what models have scored it."""

    day: date = Field(description="UTC day of the event")
    event_id: str
    values: dict[str, str] = Field(description="column -> text, as ingestion has read it")
    scores: list[dict[str, str]] = Field(description="column -> text, of each version that has scored it")
    features: dict[str, str] = Field(description="name -> text; empty where they were not read, or are gone")


class EventList(Artifact):
    """`nightshift events --json`: the events of a use case that hold an identifier."""

    use_case: str = Field(description="name in the config")
    columns: list[str] = Field(description="columns that hold identifiers, by their names inside the pipeline")
    column: str = Field(description="the one that was searched")
    value: str = Field(description="the identifier; empty: nothing was searched")
    searched: list[date] = Field(description="the days that were searched, the newest first")
    rows: int = Field(description="rows of these days")
    missing: list[date] = Field(description="those of them whose file is gone")
    older: date | None = Field(description="the next older day, from which a search can go on; null without one")
    events: list[ScoredEvent] = Field(description="the newest day first")
    left_out: int = Field(description="further events of these days")


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
    overdue: dict[str, int] = Field(
        description="table -> days past its retention that a version in service or the newest run needs"
    )


class CollectivePoint(Part):
    """A collective with one tensor size."""

    collective: str = Field(description="such as `all-reduce`")
    size_bytes: int = Field(description="of the whole buffer of a process")
    count: int = Field(description="float32 elements, of a part where the processes have or send parts")
    seconds: float = Field(description="of a call, in the mean of all processes")
    algorithm_bytes_per_second: float = Field(description="the algorithm's bandwidth")
    bus_bytes_per_second: float = Field(description="the bus bandwidth, as nccl-tests defines it")
    reference_seconds: float | None = Field(description="nccl-tests' of the same size; null without --beside")
    reference_bus_bytes_per_second: float | None = Field(description="the same of the bus bandwidth")


class CollectiveReport(Artifact):
    """`nightshift perf collectives --json`."""

    backend: str = Field(description="`gloo` or `NCCL`")
    processes: int = Field(description="number of processes")
    points: list[CollectivePoint] = Field(description="by collective, then size")


class BackfilledRun(Part):
    """One day of a backfill."""

    date: str = Field(description="logical date, YYYY-MM-DD")
    state: str = Field(description="`complete` (nothing to do), `done`, `resumed` (and done) or `failed`")
    run: str = Field(description="id")
    highlights: list[Fact] = Field(description="of its report; empty without one")


class BackfillReport(Artifact):
    """`nightshift backfill --json`."""

    days: list[BackfilledRun] = Field(description="oldest first; ends with the first that failed")
