"""The schema of `summary.json`, documented in `docs/reference/summary.md`; a test keeps the two in step.

Only the head of a summary is always there: after a failure, what a step did not get to say is null or empty.
"""

from datetime import UTC, date, datetime
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from nightshift import tasks
from nightshift.config import parse

State = Literal["done", "failed", "skipped", "reused"]


def _utc(moment: datetime) -> datetime:
    return moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)


Moment = Annotated[datetime, AfterValidator(_utc)]


class SummaryPart(BaseModel):
    """A part of the summary: immutable, no keys but these, no NaN or infinity."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, serialize_by_alias=True)


class RowCounts(SummaryPart):
    """Row counts."""

    read: int | None = Field(description="rows read from the source, over all days the features need")
    quarantined: dict[str, int] | None = Field(description="bad rows by reason; not counted further on")
    quarantined_labels: dict[str, dict[str, int]] | None = Field(
        description="the same by reason, then by label: `positive`, `negative`, a class, or empty without a label; "
        "null where no row has one"
    )
    train: int | None = Field(description="rows the final models were trained on")
    train_positives: int | None = Field(description="positives among them")
    test: int | None = Field(description="rows of the test window, without customers already known as positive")
    test_positives: int | None = Field(description="positives among them")


class DateRange(SummaryPart):
    """A closed range of UTC days."""

    first: date = Field(description="first day")
    last: date = Field(description="last day, inclusive")


class SplitRanges(SummaryPart):
    """The days that the config lays out from the logical date."""

    train: DateRange = Field(description="days the final models are trained on")
    validation: DateRange = Field(description="days on which one of the candidates is selected")
    test: DateRange = Field(description="days on which the selected model is judged")


class EvaluationSummary(SummaryPart):
    """What the gate says."""

    decision: Literal["pass", "fail", "undecided"] = Field(
        description="`pass`: the model may replace the champion; `undecided`: too little to decide on"
    )
    reasons: list[str] = Field(description="why, one sentence each")


class DriftSummary(SummaryPart):
    """What the drift check says."""

    decision: Literal["pass", "fail", "undecided"] = Field(description="`fail` when anything has drifted")
    reasons: list[str] = Field(description="why, one sentence each")
    drifted_share: float = Field(description="share of the model inputs that drifted, 0 to 1")


class DeploymentSummary(SummaryPart):
    """What was done with the model."""

    decision: Literal["promoted", "kept", "registered", "waiting"] = Field(description="what became of the new version")
    reasons: list[str] = Field(description="why, one sentence each")


class Verdicts(SummaryPart):
    """The verdicts, each null when its step has not run."""

    evaluation: EvaluationSummary | None = Field(description="of the evaluation step")
    drift: DriftSummary | None = Field(description="of the drift step")
    deployment: DeploymentSummary | None = Field(description="of the deployment step")


class Step(SummaryPart):
    """One step before this one: how it ended and what it took; null where nobody measured."""

    state: State = Field(description="`reused`: unchanged since an earlier attempt; `skipped`: no result")
    seconds: float | None = Field(description="wall time")
    cpu_seconds: float | None = Field(description="CPU time of the step's process")
    peak_memory_bytes: int | None = Field(description="largest resident memory of the step's process")
    device: str | None = Field(description="`cpu` or `cuda`, as the step reported it")
    machine: str | None = Field(description="machine and market, e.g. `g6.2xlarge spot`, where somebody has named it")
    usd: float | None = Field(description="price of it while the engine saw the step, in all tries; null without one")
    error: str | None = Field(description="why it failed")


class Hashes(SummaryPart):
    """SHA-256 of content, wherever it lies."""

    events: str | None = Field(description="of the events table")
    features: str | None = Field(description="of the features table")
    model: str | None = Field(description="of the model: inputs, threshold and graphs")


class Repeat(SummaryPart):
    """This run's hashes beside those of an earlier run that should have given the same."""

    run: str = Field(description="the earlier run's id")
    differs: list[Literal["events", "features", "model"]] = Field(description="what is not identical to that run's")
    reasons: list[str] = Field(description="a sentence each, with the likely cause of a difference where it is known")


class ProfileSummary(SummaryPart):
    """Headline figures of the training profile."""

    model: str = Field(description="the selected candidate, which was trained again")
    device: str = Field(description="`cpu` or `cuda`")
    rows_per_second: float = Field(description="training rows per second of the fit")
    data_wait_share: float = Field(
        description="share of reading and fitting that passes before the fit has its rows, 0 to 1"
    )
    peak_memory_bytes: int = Field(description="peak memory while training")
    diagnosis: str = Field(description="what the figures say, one sentence")


class Summary(SummaryPart):
    """What became of a run."""

    schema_: Literal[1] = Field(1, alias="schema", description="version of this schema")
    run: str = Field(description="the run's id")
    pipeline: str | None = Field(description="name of the pipeline, where the engine says")
    engine: str | None = Field(description="what ran the pipeline, where it says")
    status: Literal["succeeded", "failed"] = Field(description="`failed` unless every step left its result")
    logical_date: date = Field(description="last complete day of data, UTC")
    device: str = Field(description="where the run was asked to compute, `cpu` or `cuda`")
    code_version: str = Field(description="version of the code")
    started: Moment | None = Field(description="when the run began, UTC, where the engine says")
    finished: Moment = Field(description="when this summary was written, UTC")
    data: str = Field(description="where the data came from: a URI, or the name of the simulator")
    config: dict[str, Any] = Field(description="the whole config of the use case, defaults included")
    ignored: list[str] = Field(description="what the pipeline asks for and this engine cannot give")
    rows: RowCounts = Field(description="row counts")
    windows: SplitRanges = Field(description="days that train, validate and test")
    models: dict[str, dict[str, float | None]] = Field(
        description="candidate -> its metrics on the test window: `auc_roc`, `average_precision`, "
        "`precision_at_{k}` and `precision_at_{k}_ceiling`, where k is `config.evaluation.top_k`; where a task has "
        "classes, `accuracy`, `top_5_accuracy`, `macro_f1`, `auc_roc`, `log_loss` and `calibration_error`; "
        "a metric is null where it has no meaning"
    )
    selected: str | None = Field(description="the candidate that was judged and registered")
    verdicts: Verdicts = Field(description="what was decided, and why")
    steps: dict[str, Step] = Field(description="step -> how it ended and what it took")
    usd: float | None = Field(description="price of all steps; null where the machine of one has no price")
    hashes: Hashes = Field(description="identity of data, features and model")
    repeat: Repeat | None = Field(
        description="comparison with the newest earlier complete run of the same pipeline, date, config, data, device "
        "and code; null where there is none"
    )
    model_version: int | None = Field(description="version under which the model is registered")
    champion_version: int | None = Field(description="version that serves after this run")
    endpoint: str | None = Field(description="URL that serves the champion")
    curl: str | None = Field(description="a command that scores one event there")
    profile: ProfileSummary | None = Field(description="headline figures of the training profile")
    links: dict[str, str] = Field(description="what the steps wrote -> its URI; only what exists")

    @model_validator(mode="after")
    def _metrics_are_those_of_the_task(self) -> Self:
        config = parse(self.config)
        expected = {metric.summary for metric in tasks.find(config.task.kind).metrics.list_metrics(config)}
        for name, scores in self.models.items():
            if set(scores) != expected:
                raise ValueError(f"metrics of {name!r} are {sorted(scores)}, not {sorted(expected)}")
        return self
