"""What the UI shows where no command prints it: what needs a person, a run's progress, versions, spending and data."""

from datetime import date, datetime
from enum import StrEnum

from pydantic import Field

from nightshift.contracts.artifact import Artifact, Part
from nightshift.contracts.listings import ListedRun, ListedVersion
from nightshift.contracts.release_record import LivePeriod
from nightshift.contracts.verdict import Decision, Measure


class RunState(StrEnum):
    """How far a run has come."""

    RUNNING = "running"
    COMPLETE = "complete"
    FAILED = "failed"
    STOPPED = "stopped"  # it is not complete, and nothing has been written for a while


class AttentionCause(StrEnum):
    """Why something needs a person."""

    FAILED = "failed"
    STOPPED = "stopped"
    WARNING = "warning"  # a step of the newest run says something that is no good news
    APPROVAL = "approval"  # a version has passed its gates and waits for a person
    RELEASE = "release"  # two versions share the requests, or are about to


class AttentionItem(Part):
    """Something that needs a person."""

    cause: AttentionCause
    use_case: str | None = Field(description="name in the config; null of a pipeline without one")
    run: str | None = Field(description="id; null of a release")
    version: int | None = Field(None, description="that waits for an approval; null of anything else")
    logical_date: date | None = Field(description="last complete UTC day of the run's data")
    title: str = Field(description="a line")
    reasons: list[str] = Field(description="why, a sentence each; the first few")


class UseCaseState(Part):
    """A use case, in short."""

    use_case: str = Field(description="name in the config")
    runs: int = Field(description="number of runs")
    newest: ListedRun = Field(description="the last to start")
    champion: int | None = Field(description="the live version; null where there is none")
    champion_since: datetime | None = Field(description="UTC")
    challenger: int | None = Field(description="the version that is being released; null where there is none")


class Overview(Artifact):
    """What needs a person, and the use cases of a workspace."""

    items: list[AttentionItem] = Field(description="of the week up to the newest run; the newest first")
    has_more: bool = Field(description="whether there are more than these")
    running: list[ListedRun] = Field(description="runs in progress")
    use_cases: list[UseCaseState] = Field(description="by name")
    runs: int = Field(description="number of all runs")
    problems: list[str] = Field(description="why runs or releases are left out that cannot be read")


class StepProgress(Part):
    """A step of a run."""

    step: str = Field(description="name in the pipeline")
    state: str = Field(description="`waiting`, `running`, `done`, `reused`, `skipped` or `failed`")
    seconds: float | None = Field(description="duration; null while it runs and where nobody measured")
    error: str | None = Field(description="its last lines, if it failed")
    log: list[str] = Field(description="last lines of its log, while it runs or if it failed")


class RunSteps(Artifact):
    """How far a run has come, step by step."""

    run: ListedRun
    state: RunState
    steps: list[StepProgress] = Field(description="in their order")
    previous: str | None = Field(description="id of the run of the same pipeline and use case before it")


class VersionRecord(Artifact):
    """A registered version: where it comes from, how it was judged."""

    listed: ListedVersion
    sha256: str = Field(description="identity of the model")
    run: str | None = Field(description="id of the run that made it, as far as it exists")
    decision: Decision | None = Field(description="of its evaluation; null where its run is gone")
    reasons: list[str] = Field(description="why, one sentence each")
    measures: list[Measure] = Field(description="what its evaluation has measured")
    tags: dict[str, str] = Field(description="lineage, and who registered it and when")


class VersionHistory(Artifact):
    """The newest versions of a use case's model, and which one was live when."""

    use_case: str
    versions: list[VersionRecord] = Field(description="by number")
    left_out: int = Field(description="older versions")
    periods: list[LivePeriod] = Field(description="oldest first")


class SpendingTotal(Part):
    """What some runs, or some steps, have cost together."""

    name: str = Field(description="day, use case or step")
    count: int = Field(description="runs, or runs of the step")
    seconds: float
    usd: float = Field(description="US dollars of those that have a price")
    unpriced: int = Field(description="how many have none")


class Spending(Artifact):
    """What the runs of the newest days have cost."""

    first: date = Field(description="UTC day, of the start of runs")
    last: date
    by_day: list[SpendingTotal]
    by_use_case: list[SpendingTotal] = Field(description="the most expensive first")
    by_step: list[SpendingTotal] = Field(description="the most expensive first")


class DataDay(Part):
    """A UTC day of a use case's data."""

    day: date
    run: str = Field(description="id of the newest run that has read it")
    read: int = Field(description="rows read; 0 of a day without rows")
    quarantined: dict[str, int] = Field(description="reason -> rows left out")
    unlabeled: int = Field(description="rows whose label is late")


class DataDays(Artifact):
    """The newest days of a use case's data."""

    use_case: str
    days: list[DataDay] = Field(description="oldest first")


class QuarantinedRows(Part):
    """Rows of a day that one rule has rejected."""

    reason: str
    rows: int
    examples: list[dict[str, str]] = Field(description="the first ones, column -> text; identifiers are masked")


class QuarantinedDay(Artifact):
    """The rejected rows of a day."""

    use_case: str
    day: date
    reasons: list[QuarantinedRows] = Field(description="the most frequent first")


class ComparedValue(Part):
    """A value of two runs or versions, if they differ in it."""

    name: str = Field(description="path in the document, joined by dots")
    left: str | float | None
    right: str | float | None


class SideBySide(Artifact):
    """Two runs or versions, side by side."""

    left: str = Field(description="id, or number")
    right: str
    equal: int = Field(description="number of values that are the same")
    values: list[ComparedValue] = Field(description="those that differ; the first ones")
    left_out: int = Field(description="further ones that differ")
