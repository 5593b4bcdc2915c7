"""The plans of experiments, and what they have used: read from what registry, runs and releases have left."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import dropwhile, takewhile

from components.release import core
from components.release.core import DAY
from components.release.experiment import ExperimentUse
from nightshift import registry, storage
from nightshift.contracts import package
from nightshift.contracts.experiment import ExperimentPlan
from nightshift.contracts.release_record import Entry, Release
from nightshift.contracts.state import State
from nightshift.runtime.errors import UserError
from nightshift.stats.sequential import LossSums

PIPELINE = "release"  # in the name of a run that judges
SUMMARY = "summary.json"
GIGABYTE = 1e9
HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class ExperimentStates:
    """The states of an experiment in the release record.

    Attributes:
        running: while its challenger was compared or answered requests, oldest first; none before it starts.
        end: the state that followed; None while it runs.
    """

    running: list[Entry]
    end: Entry | None

    @classmethod
    def find(cls, plan: ExperimentPlan, record: Release) -> "ExperimentStates":
        """Find the states of a plan's release."""
        later = list(dropwhile(lambda entry: entry.since != plan.planned_at, record.entries))
        running = list(takewhile(lambda entry: _has_challenger(entry, plan.challenger.version), later))
        return cls(running, later[len(running)] if running and len(later) > len(running) else None)

    def count_serving_hours(self, now: datetime) -> float:
        """Return the hours in which the challenger answered requests."""
        ends = [*(entry.since for entry in self.running[1:]), self.end.since if self.end else now]
        served = [
            end - entry.since
            for entry, end in zip(self.running, ends, strict=False)  # without any, there is an end all the same
            if entry.challenger and entry.challenger.traffic
        ]
        return sum(time / HOUR for time in served)


def folder(state: State, use_case: str) -> str:
    """Return where the plans of a use case's experiments are kept.

    Raises:
        UserError: without an audit root.
    """
    if not state.audit:
        raise UserError("experiments are kept below the audit root; give it as --audit: a folder, s3://... or gs://...")
    return storage.join(state.audit, use_case, "experiments")


def plan_uri(state: State, record: Release) -> str:
    """Return where the plan of the release that is under way is, if it has one."""
    start, number = core.start_time(record), core.require_challenger(record).version
    return name_plan(state, record.use_case, start, number)


def name_plan(state: State, use_case: str, start: datetime, number: int) -> str:
    """Return where the plan of a version's experiment is, by its start."""
    return storage.join(folder(state, use_case), f"{start:%Y%m%dT%H%M%S.%f}-{number}.json")


def read_plan(state: State, record: Release) -> ExperimentPlan | None:
    """Return the plan of the release that is under way, None where it has none."""
    if record.challenger is None:
        return None
    uri = plan_uri(state, record)
    return ExperimentPlan.read(uri) if storage.exists(uri) else None


def read_newest_plan(state: State, use_case: str) -> ExperimentPlan | None:
    """Return the plan of the newest experiment, None where there was none."""
    root = folder(state, use_case)
    names = sorted(storage.names(root))
    return ExperimentPlan.read(storage.join(root, names[-1])) if names else None


def read_days(state: State, record: Release) -> dict[str, LossSums]:
    """Return what each day's labels have said in the release that is under way, day -> sums of all events."""
    root = losses_folder(state, record)
    return {name: LossSums(**storage.read_json(storage.join(root, name))[""]) for name in sorted(storage.names(root))}


def losses_folder(state: State, record: Release) -> str:
    """Return where the losses of the release that is under way are kept, a file a day."""
    pair = [*(served.sha256 for served in record.versions), core.start_time(record).isoformat()]
    return storage.join(state.audit, record.use_case, "releases", storage.fingerprint(pair)[:16])


def read_use(state: State, plan: ExperimentPlan, record: Release, labels: int, now: datetime) -> ExperimentUse:
    """Return what an experiment has used.

    Args:
        state: where runs and the registry are.
        plan: of the experiment.
        record: of the use case's releases.
        labels: that have arrived since the start.
        now: with its zone.
    """
    states = ExperimentStates.find(plan, record)
    until = states.end.since if states.end else now
    version = registry.find(state.registry, plan.use_case, plan.challenger.version)
    size = sum(file.size for file in package.load(version.uri).files)
    kept_days = max((until - datetime.fromisoformat(version.tags["registered_at"])) / DAY, 0.0)
    parent = version.tags.get("parent_run")
    return ExperimentUse(
        training={parent: _read_usd(state, parent)} if parent else {},
        judging=dict(_read_judging(state, plan, until)),
        serving_hours=states.count_serving_hours(until),
        gigabyte_days=size / GIGABYTE * kept_days,
        labels=labels,
    )


def _has_challenger(entry: Entry, number: int) -> bool:
    return entry.challenger is not None and entry.challenger.version == number


def _read_judging(state: State, plan: ExperimentPlan, until: datetime) -> Iterator[tuple[str, float | None]]:
    """Yield the runs that have judged the experiment, and their US dollars."""
    for name in sorted(storage.names(state.runs)):
        if not name.startswith(f"{plan.use_case}-{PIPELINE}-"):
            continue
        uri = storage.join(state.runs, name, SUMMARY)
        if not storage.exists(uri):
            continue
        summary = storage.read_json(uri)
        started = datetime.fromisoformat(summary["started"] or summary["finished"])
        if plan.planned_at <= started <= until:
            yield name, summary.get("usd")


def _read_usd(state: State, run: str) -> float | None:
    uri = storage.join(state.runs, run, SUMMARY)
    return storage.read_json(uri).get("usd") if storage.exists(uri) else None
