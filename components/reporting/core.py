"""Puts what the steps left into one summary."""

from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, TypeVar

from components.reporting.summary import (
    DateRange,
    DeploymentSummary,
    DriftSummary,
    EvaluationSummary,
    Hashes,
    ProfileSummary,
    Repeat,
    RowCounts,
    SplitRanges,
    State,
    Step,
    Summary,
    SummaryPart,
    Verdicts,
)
from nightshift import tasks
from nightshift.config import Config
from nightshift.config.policy import Costs
from nightshift.contracts.section import Section
from nightshift.costs import prices
from nightshift.data.splits import Days, plan

Json = dict[str, Any]
P = TypeVar("P", bound=SummaryPart)


@dataclass(frozen=True)
class StepArtifact:
    """A step's artifact, as the report reads it.

    Attributes:
        step: that writes it.
        files: name -> path inside, empty of an artifact that is a file; the last one says that the step is through.
        pages: name -> path inside of what is linked and not read.
    """

    step: str
    files: dict[str, str]
    pages: dict[str, str] = field(default_factory=dict)

    @property
    def last_file(self) -> str:
        """The name of the file that is written last."""
        return list(self.files)[-1]


ARTIFACTS = {
    "events": StepArtifact("ingestion", {"events": ""}),
    "features": StepArtifact("features", {"features": ""}),
    "model": StepArtifact("training", {"model": "model.json"}),
    "optimized": StepArtifact("optimization", {"optimized": "optimization.json"}),
    "profile": StepArtifact("profiling", {"profile": "profile.json"}, {"trace": "trace.json.gz"}),
    "evaluation": StepArtifact(
        "evaluation",
        {"evaluation": "evaluation.json", "verdict": "verdict.json"},
        {"model_card": "model_card.md"},
    ),
    "scores": StepArtifact("scoring", {"scores": "scores.json"}),
    "drift": StepArtifact(
        "drift", {"drift": "drift.json", "drift_verdict": "verdict.json"}, {"evidently": "evidently.html"}
    ),
    "deployment": StepArtifact("deployment", {"deployment": ""}),
    "request": StepArtifact("monitoring", {"request": ""}),
    "launch": StepArtifact("launching", {"launch": ""}),
    "loadtest": StepArtifact("loadtest", {"loadtest": "loadtest.json"}),
    "release": StepArtifact("release", {"release": ""}),
}


@dataclass(frozen=True)
class RunHeader:
    """A run's identity, known before its artifacts are read.

    Attributes:
        run: its id.
        logical_date: last complete day of data.
        device: `cpu` or `cuda`.
        data: where the data came from.
        config: the use case.
        code_version: version of the code.
        finished: the time now.
    """

    run: str
    logical_date: date
    device: str
    data: str
    config: Config
    code_version: str
    finished: datetime


@dataclass(frozen=True)
class RunArtifacts:
    """Artifacts of a run so far.

    Attributes:
        artifacts: artifact -> its URI, whether it was written or not: they say which steps there are.
        files: file -> its JSON, as far as there: `events`, `features`, `model`, `optimized`, `profile`, `evaluation`,
            `verdict` (evaluation's), `scores`, `drift`, `drift_verdict`, `deployment`, `request`, `launch`, `loadtest`,
            `release`.
        sections: of the steps, for the page.
        measures: artifact -> what the step that made it measured of itself, from the executor input.
        record: `run.json` of the local engine, or empty.
        links: name -> URI of everything that exists.
    """

    artifacts: dict[str, str] = field(default_factory=dict)
    files: dict[str, Json] = field(default_factory=dict)
    sections: list[Section] = field(default_factory=list)
    measures: dict[str, Json] = field(default_factory=dict)
    record: Json = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)

    @property
    def steps(self) -> dict[str, str]:
        """The steps of the pipeline before this one -> the artifact each of them writes."""
        return {artifact.step: name for name, artifact in ARTIFACTS.items() if name in self.artifacts}

    @property
    def libraries(self) -> list[str]:
        """The versions that the steps reported, each once."""
        reported = [text for measure in self.measures.values() for text in measure.get("libraries", "").split(", ")]
        return sorted({text for text in reported if text})

    def file(self, name: str) -> Json:
        """Return a file's JSON, empty when the file was not written."""
        return self.files.get(name, {})

    def details(self, name: str) -> Json:
        """Return the `details` of a table, empty when it was not written."""
        details: Json = self.file(name).get("details", {})
        return details

    def step_record(self, artifact: str) -> Json:
        """Return what the engine recorded of the step that writes an artifact, into a folder of the task's name."""
        task = self.artifacts[artifact].rsplit("/", 2)[-2]
        entry: Json = self.record.get("steps", {}).get(task, {})
        return entry


def is_repeated_by(earlier: Json, head: RunHeader, pipeline: str) -> bool:
    """Return whether a run has to give the same data, features and model as a complete earlier one.

    Args:
        earlier: `summary.json` of the earlier run.
        head: of the run.
        pipeline: what it runs.
    """
    same = {
        "status": "succeeded",
        "pipeline": pipeline,
        "logical_date": str(head.logical_date),
        "config": head.config.model_dump(mode="json"),
        "data": head.data,
        "device": head.device,
        "code_version": head.code_version,
    }
    return same.items() <= earlier.items()


def summarize(head: RunHeader, artifacts: RunArtifacts, earlier: Json | None = None) -> Summary:
    """Put a summary together; what was not found is null or empty in it.

    Args:
        head: identity of the run.
        artifacts: of its steps.
        earlier: `summary.json` of the run that it repeats, if there is one.

    Raises:
        pydantic.ValidationError: when a step wrote something else than it promises.
    """
    steps = {name: _step(artifact, artifacts, head.config.costs) for name, artifact in artifacts.steps.items()}
    spent = [step.usd for step in steps.values() if step.seconds is not None]
    complete = bool(steps) and all(step.state in ("done", "reused") for step in steps.values())
    deployment = artifacts.file("deployment")
    hashes = Hashes(**{name: artifacts.file(name).get("sha256") for name in ("events", "features", "model")})
    return Summary(
        run=head.run,
        pipeline=artifacts.record.get("pipeline"),
        engine=artifacts.record.get("engine"),
        status="succeeded" if complete else "failed",
        logical_date=head.logical_date,
        device=head.device,
        code_version=head.code_version,
        started=artifacts.record.get("started"),
        finished=head.finished,
        data=head.data,
        config=head.config.model_dump(mode="json"),
        ignored=artifacts.record.get("ignored", []),
        rows=_count_rows(artifacts),
        windows=_windows(head),
        models=_models(head, artifacts),
        selected=artifacts.file("model").get("selected"),
        verdicts=_verdicts(artifacts),
        steps=steps,
        usd=sum(usd or 0.0 for usd in spent) if spent and None not in spent else None,
        hashes=hashes,
        repeat=_repeat(hashes, earlier, head.code_version) if earlier and any(digest for _, digest in hashes) else None,
        model_version=deployment.get("version"),
        champion_version=deployment.get("champion_version"),
        endpoint=deployment.get("endpoint"),
        curl=deployment.get("curl"),
        profile=_part(ProfileSummary, artifacts.file("profile")),
        links=artifacts.links,
    )


def _step(artifact: str, artifacts: RunArtifacts, costs: Costs) -> Step:
    recorded = artifacts.step_record(artifact)
    measured = recorded | artifacts.measures.get(artifact, {})
    machine = measured.get("machine") or costs.machine
    hourly = prices.find_price(machine or "", costs.prices)
    # the engine's seconds are those of all tries, the step's those of its last
    seconds = recorded.get("seconds", measured.get("seconds"))
    error = measured.get("error")
    return Step(
        state=_state(
            recorded.get("state", "failed" if error else None), ARTIFACTS[artifact].last_file in artifacts.files
        ),
        seconds=measured.get("seconds"),
        cpu_seconds=measured.get("cpu_seconds"),
        peak_memory_bytes=measured.get("peak_memory_bytes"),
        device=measured.get("device"),
        machine=machine,
        usd=None if hourly is None or seconds is None else hourly * seconds / 3600,
        error=error,
    )


def _state(recorded: State | None, has_result: bool) -> State:
    """Return how a step ended; a result that has gone missing since is none."""
    if has_result:
        return recorded or "done"
    return "failed" if recorded == "failed" else "skipped"


def _count_rows(artifacts: RunArtifacts) -> RowCounts:
    events = artifacts.details("events")
    train, test = (
        artifacts.file("model").get("lineage", {}).get("train", {}),
        artifacts.file("evaluation").get("test", {}),
    )
    return RowCounts(
        read=events.get("read"),
        quarantined=events.get("quarantined"),
        quarantined_labels=events.get("quarantined_labels"),
        train=train.get("rows"),
        train_positives=train.get("positives"),
        test=test.get("rows"),
        test_positives=test.get("positives"),
    )


def _windows(head: RunHeader) -> SplitRanges:
    windows = plan(head.config, head.logical_date)
    return SplitRanges(
        train=_window(windows.test.train), validation=_window(windows.validation.test), test=_window(windows.test.test)
    )


def _window(days: Days) -> DateRange:
    return DateRange(first=days.first, last=days.last)


def _models(head: RunHeader, artifacts: RunArtifacts) -> dict[str, dict[str, float | None]]:
    models: Json = artifacts.file("evaluation").get("models", {})
    metrics = tasks.find(head.config.task.kind).metrics.list_metrics(head.config)
    names = {metric.name: metric.summary for metric in metrics}
    return {model: {names[name]: value for name, value in scores.items()} for model, scores in models.items()}


def _verdicts(artifacts: RunArtifacts) -> Verdicts:
    figures, verdict = artifacts.file("drift"), artifacts.file("drift_verdict")
    return Verdicts(
        evaluation=_part(EvaluationSummary, artifacts.file("verdict")),
        drift=_part(DriftSummary, figures | verdict) if figures and verdict else None,
        deployment=_part(DeploymentSummary, artifacts.file("deployment")),
    )


def _repeat(hashes: Hashes, earlier: Json, code_version: str) -> Repeat:
    pairs = {name: (ours, earlier["hashes"][name]) for name, ours in hashes if ours}
    differs = [name for name, (ours, theirs) in pairs.items() if ours != theirs]
    reasons = [
        f"{name.capitalize()}: " + (f"{ours[:8]} here, {theirs[:8]} there." if name in differs else "identical.")
        for name, (ours, theirs) in pairs.items()
    ]
    if "events" in differs:
        reasons.append("The source data has most likely changed.")
    elif differs and code_version.endswith(".dirty"):
        reasons.append("The code has changes that are not committed, so it may not be the same code.")
    return Repeat(run=earlier["run"], differs=differs, reasons=reasons)


def _part(kind: type[P], file: Json) -> P | None:
    """Return the part made of a file's values of the same names, or None for a file that was not written."""
    return kind(**{name: file[name] for name in kind.model_fields}) if file else None
