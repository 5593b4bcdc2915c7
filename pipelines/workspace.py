"""What a workspace holds, as the documents that commands print by `--json`. Reads it, and changes nothing."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from itertools import islice
from typing import Any

from pydantic import PositiveInt

from nightshift import registry, storage
from nightshift.contracts import drift
from nightshift.contracts.drift import DriftReport
from nightshift.contracts.listings import (
    DriftCheck,
    DriftedInput,
    DriftHistory,
    ListedRun,
    ListedVersion,
    ModelList,
    RunCost,
    RunCosts,
    RunList,
    StepCost,
)
from nightshift.contracts.section import PAGE, Page, read_page
from nightshift.contracts.state import State
from nightshift.contracts.verdict import FILE, Verdict
from nightshift.registry import approvals, release_record
from nightshift.registry.release_record import ReleaseRef
from nightshift.runtime.errors import UserError, nearest
from pipelines.run_index import SUMMARY, IndexedRun, RunIndex

DRIFT = f"drift/drift/{FILE}"  # in a run's folder: the step, its artifact, the gate's verdict
DRIFT_REPORT = f"drift/drift/{drift.FILE}"


@dataclass(frozen=True)
class Workspace:
    """Runs in a folder, and models in a registry."""

    state: State

    @cached_property
    def index(self) -> RunIndex:
        """The runs, read again as they change."""
        return RunIndex(self.state.runs)

    def list_runs(self, name: str | None = None, limit: PositiveInt = 20, unfinished: bool = False) -> RunList:
        """Return the newest runs, and why others cannot be read.

        Args:
            name: of a use case; null for all.
            limit: the largest number of runs.
            unfinished: whether to list only those that failed or have not ended.
        """
        kept = [run for run in self.index.runs(name) if not (unfinished and run.complete)]
        runs = [self.describe_run(run) for run in kept[:limit]]
        return RunList(runs=runs, problems=self.index.problems)

    def read_report(self, run: str = "latest") -> Page:
        """Return the report of a run: its headline, outcomes with their reasons, and sections.

        Args:
            run: its id, from the list of runs; `latest` is the newest with a report.

        Raises:
            UserError: when there is no such run, or it has no report.
        """
        indexed = self.index.find(run)
        folder = self.index.folder(indexed)
        page = read_page(folder)
        if page is None:
            raise UserError(f"{folder} has no report; write it with `nightshift report {indexed.name}`")
        return page

    def list_models(self, name: str | None = None) -> ModelList:
        """Return the registered model versions, with the metric of each, and which one is the champion.

        Args:
            name: of a use case; null for all.

        Raises:
            UserError: when the registry has no model, or none of that name.
        """
        uri = self.state.registry
        names = [registry.choose_name(uri, name)] if name else registry.require_names(uri)
        return ModelList(versions=[version for name in names for version in _list_versions(self.state, name)])

    def read_drift(self, name: str, limit: PositiveInt = 20) -> DriftHistory:
        """Return the newest verdicts on drift of a use case: how far its data lies from what its model was trained on.

        Args:
            name: of the use case.
            limit: the largest number of verdicts.

        Raises:
            UserError: when it has no run.
        """
        judged = self.index.derive_all(self.require_runs(name), read_drift_verdict)
        checks = [self._check_drift(run, verdict) for run, verdict in islice(judged, limit)]
        return DriftHistory(use_case=name, checks=checks, drifted=list_drifted(checks))

    def read_costs(self, run: str | None = None) -> RunCosts:
        """Return what runs have cost, by step.

        Args:
            run: id of one; null for all.

        Raises:
            UserError: when there is no such run, or no summary.
        """
        if run:
            indexed = self.index.find(run)
            cost = self.index.derive(indexed, read_cost)
            if cost is None:
                folder = self.index.folder(indexed)
                raise UserError(f"{folder} has no summary.json; write it with `nightshift report {indexed.name}`")
            return RunCosts(runs=[cost])
        runs = sorted(self.index.runs(), key=lambda indexed: indexed.name)
        every = [cost for _, cost in self.index.derive_all(runs, read_cost)]
        if not every:
            raise UserError(f"no run in {self.state.runs} has a summary yet; `nightshift run` makes one")
        return RunCosts(runs=every)

    def _check_drift(self, run: IndexedRun, verdict: Verdict) -> DriftCheck:
        report = self.index.try_derive(run, read_drift_report)
        drifted = [column for column in report.columns if column.drifted] if report else []
        return DriftCheck.model_validate(
            {"run": run.name, "logical_date": run.logical_date, "verdict": verdict, "drifted": drifted}
        )

    def find_features(self, name: str) -> tuple[date, str] | None:
        """Return the logical date of a use case's newest run with features, and the URI of their manifest."""
        uris = self.index.derive_all(self.index.runs(name), read_features_uri)
        return next(((run.logical_date, uri) for run, uri in uris if run.logical_date), None)

    def require_runs(self, name: str) -> list[IndexedRun]:
        """Return the runs of a use case, the last to start first.

        Raises:
            UserError: when it has none.
        """
        runs = self.index.runs(name)
        if not runs:
            names = sorted({run.use_case for run in self.index.runs() if run.use_case})
            known = f"; use cases with runs: {', '.join(names)}" if names else ""
            raise UserError(f"{self.state.runs} has no run of use case {name!r}{known}{nearest(name, names)}")
        return runs

    def describe_run(self, run: IndexedRun) -> ListedRun:
        """Return how a run is listed."""
        return ListedRun.model_validate(
            {
                "run": run.name,
                "pipeline": run.pipeline,
                "use_case": run.use_case,
                "logical_date": run.logical_date,
                "started": run.started,
                "complete": run.complete,
                "failed": run.failed,
                "has_report": self.index.derive(run, has_report),
            }
        )


def has_report(folder: str) -> bool:
    """Return whether a run in a folder has a report."""
    return storage.exists(storage.join(folder, PAGE))


def read_summary(folder: str) -> dict[str, Any]:
    """Return the summary of a run in a folder, empty without one."""
    uri = storage.join(folder, SUMMARY)
    return dict(storage.read_json(uri)) if storage.exists(uri) else {}


def read_features_uri(folder: str) -> str:
    """Return where the manifest of a run's features is, empty where it has none."""
    return str(read_summary(folder).get("links", {}).get("features", ""))


def read_drift_verdict(folder: str) -> Verdict | None:
    """Return what a run in a folder says of drift, None where it has not measured it."""
    uri = storage.join(folder, DRIFT)
    if not storage.exists(uri):
        # an engine may keep artifacts elsewhere
        uri = read_summary(folder).get("links", {}).get("drift_verdict", "")
    return Verdict.read(uri) if uri and storage.exists(uri) else None


def read_drift_report(folder: str) -> DriftReport | None:
    """Return how far the inputs of a run in a folder have moved, None where it has not kept it."""
    uri = storage.join(folder, DRIFT_REPORT)
    return DriftReport.read(uri) if storage.exists(uri) else None


def list_drifted(checks: Sequence[DriftCheck]) -> list[DriftedInput]:
    """Return the inputs that have drifted on the newest day, and since when without a break, the first first."""
    by_day = {check.logical_date: check for check in reversed(checks)}
    newest = by_day[max(by_day)].drifted if by_day else []
    since: dict[str, date] = {}
    for day in sorted(by_day):
        names = {column.name for column in by_day[day].drifted}
        since = {name: since.get(name, day) for name in names}
    fields = set(DriftedInput.model_fields) - {"since"}
    drifted = [DriftedInput(since=since[column.name], **column.model_dump(include=fields)) for column in newest]
    return sorted(drifted, key=lambda one: (one.since, -one.psi))


def read_cost(folder: str) -> RunCost | None:
    """Return what a run in a folder has cost, None where it has no summary."""
    summary = read_summary(folder)
    if not summary:
        return None
    steps = [
        StepCost(step=name, machine=step.get("machine"), seconds=step["seconds"], usd=step.get("usd"))
        for name, step in summary["steps"].items()
    ]
    return RunCost(
        run=summary["run"],
        use_case=summary["config"]["name"],
        model_version=summary["model_version"],
        seconds=sum(step.seconds or 0.0 for step in steps),
        usd=summary.get("usd"),
        steps=steps,
    )


def _list_versions(state: State, name: str) -> Iterator[ListedVersion]:
    ref = ReleaseRef.from_state(state, name)
    versions, record = registry.versions(state.registry, name), release_record.read(ref)
    waiting = {entry.version for entry in approvals.list_waiting(ref, record)}
    metric = next((version.tags["promise"] for version in reversed(versions) if "promise" in version.tags), None)
    for version in versions:
        tags = version.tags
        yield ListedVersion.model_validate(
            {
                "use_case": name,
                "version": version.version,
                "champion": record is not None and record.live.version == version.version,
                "waits": version.version in waiting,
                "train_first": tags.get("train_first"),
                "train_last": tags.get("train_last"),
                "metric": metric,
                "metric_value": tags.get(metric or ""),
                "registered_at": tags["registered_at"],
                "live_since": record.live_since.get(version.version) if record else None,
            }
        )
