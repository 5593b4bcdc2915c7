"""What a workspace holds, as the documents that commands print by `--json`. Reads it, and changes nothing."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import PositiveInt

from nightshift import registry
from nightshift.contracts.listings import (
    DriftCheck,
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
from nightshift.registry import release_record
from nightshift.registry.release_record import ReleaseRef
from nightshift.runtime.errors import UserError, nearest
from pipelines import records

DRIFT = Path("drift", "drift", FILE)  # in a run's folder: the step, its artifact, the gate's verdict


@dataclass(frozen=True)
class Workspace:
    """Runs in a folder, and models in a registry."""

    state: State

    def list_runs(self, name: str | None = None, limit: PositiveInt = 20) -> RunList:
        """Return the newest runs, and why others cannot be read.

        Args:
            name: of a use case; null for all.
            limit: the largest number of runs.
        """
        problems: list[str] = []
        runs = islice(self._records(name, problems), limit)
        return RunList(runs=[_describe_run(folder, record) for folder, record in runs], problems=problems)

    def read_report(self, run: str = "latest") -> Page:
        """Return the report of a run: its headline, outcomes with their reasons, and sections.

        Args:
            run: its id, from the list of runs; `latest` is the newest with a report.

        Raises:
            UserError: when there is no such run, or it has no report.
        """
        folder = records.find_folder(run, self.state.runs)
        page = read_page(str(folder))
        if page is None:
            raise UserError(f"{folder} has no report; write it with `nightshift report {folder.name}`")
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
        runs = list(self._records(name, []))
        if not runs:
            names = sorted({record.use_case for _, record in self._records(None, []) if record.use_case})
            known = f"; use cases with runs: {', '.join(names)}" if names else ""
            raise UserError(f"{self.state.runs} has no run of use case {name!r}{known}{nearest(name, names)}")
        judged = ((folder, record) for folder, record in runs if (folder / DRIFT).exists())
        return DriftHistory(use_case=name, checks=[_describe_drift(*run) for run in islice(judged, limit)])

    def read_costs(self, run: str | None = None) -> RunCosts:
        """Return what runs have cost, by step.

        Args:
            run: id of one; null for all.

        Raises:
            UserError: when there is no such run, or no summary.
        """
        folder = Path(self.state.runs)
        if run:
            path = records.find_folder(run, str(folder))
            costs = _read_cost(path)
            if costs is None:
                raise UserError(f"{path} has no summary.json; write it with `nightshift report {path.name}`")
            return RunCosts(runs=[costs])
        every = [cost for path in sorted(folder.glob("*")) if not path.is_symlink() and (cost := _read_cost(path))]
        if not every:
            raise UserError(f"no run in {folder} has a summary yet; `nightshift run` makes one")
        return RunCosts(runs=every)

    def _records(self, name: str | None, problems: list[str]) -> Iterator[tuple[Path, records.Record]]:
        """Yield the runs of a use case, or all, newest first; add to the problems why others cannot be read."""
        for folder in records.newest_first(Path(self.state.runs)):
            try:
                record = records.read(folder)
            except UserError as error:
                problems.append(str(error))
                continue
            if name in (None, record.use_case):
                yield folder, record


def _describe_run(folder: Path, record: records.Record) -> ListedRun:
    return ListedRun(
        run=folder.name,
        pipeline=record.pipeline,
        use_case=record.use_case,
        logical_date=record.parameters.get("date"),
        started=record.started,
        complete=record.complete,
        has_report=(folder / PAGE).exists(),
    )


def _describe_drift(folder: Path, record: records.Record) -> DriftCheck:
    verdict = Verdict.read(str(folder / DRIFT))
    return DriftCheck(run=folder.name, logical_date=record.parameters["date"], verdict=verdict)


def _list_versions(state: State, name: str) -> Iterator[ListedVersion]:
    versions, record = registry.versions(state.registry, name), release_record.read(ReleaseRef.from_state(state, name))
    metric = next((version.tags["promise"] for version in reversed(versions) if "promise" in version.tags), None)
    for version in versions:
        tags = version.tags
        yield ListedVersion.model_validate(
            {
                "use_case": name,
                "version": version.version,
                "champion": record is not None and record.live.version == version.version,
                "train_first": tags.get("train_first"),
                "train_last": tags.get("train_last"),
                "metric": metric,
                "metric_value": tags.get(metric or ""),
                "registered_at": tags["registered_at"],
                "live_since": record.live_since.get(version.version) if record else None,
            }
        )


def _read_cost(folder: Path) -> RunCost | None:
    path = folder / "summary.json"
    if not path.exists():
        return None
    summary: dict[str, Any] = json.loads(path.read_text())
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
