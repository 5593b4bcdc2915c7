"""Shows this run, and those that wait, in MLflow."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass

from components.reporting.summary import DateRange, Summary
from nightshift import registry, storage
from nightshift.contracts import package
from nightshift.contracts.pending_night import PendingNight
from nightshift.contracts.state import DeploymentTarget, State
from nightshift.registry import release_record
from nightshift.registry.release_record import ReleaseRef
from nightshift.runtime import step
from nightshift.runtime.context import StepContext
from nightshift.tasks import markdown
from nightshift.tracking import connection, live, nights
from nightshift.tracking.nights import TrackedNight
from nightshift.tracking.runs import VERSION, RunValues

FOLDER = "tracking"  # below the audit root
SECONDS = 60.0  # that a run waits for the server
NOTE = "mlflow.note.content"  # tag that MLflow shows as the run's description
PAGES = {"model_card": "evaluation/model_card.md", "profile": "profile/profile.json"}  # link -> path in MLflow


def track(context: StepContext, summary: Summary, seconds: float = SECONDS) -> None:
    """Have MLflow show this run and those that wait; what goes wrong is logged, since no night fails by it."""
    try:
        url = registry.find_tracking_server(context.state.registry)
        if not url:
            return
        tracker = NightTracker(url, context.state)
        tracker.add(summary)
        # a server can be slow in more ways than there are timeouts
        worker = threading.Thread(target=tracker.deliver, args=[context.config.name], daemon=True)
        worker.start()
        worker.join(seconds)
        if worker.is_alive():
            step.log.warning("MLflow at %s has not answered in %g s; the next run shows this one too", url, seconds)
    except Exception as error:
        step.log.warning("MLflow does not show this run: %s", error)


@dataclass(frozen=True)
class NightTracker:
    """Shows nights in MLflow, and keeps those that it could not show.

    Attributes:
        url: of the server.
        state: roots of the runs, and of what is kept for good.
    """

    url: str
    state: State

    @property
    def folder(self) -> str:
        """Where pending nights lie."""
        return storage.join(self.state.audit, FOLDER)

    def add(self, summary: Summary) -> None:
        """Have a run pending."""
        is_backfill = self.state.target is DeploymentTarget.RECORD_ONLY
        name = f"{summary.finished:%Y%m%dT%H%M%S%f}@{summary.run}.json"
        PendingNight(run=summary.run, is_backfill=is_backfill).write(storage.join(self.folder, name))

    def deliver(self, use_case: str) -> None:
        """Show what is pending, the newest first, and when versions of a use case were live."""
        try:
            uris = [storage.join(self.folder, name) for name in reversed(storage.names(self.folder))]
            pending = {uri: PendingNight.read(uri) for uri in uris}
            for night in {night.run: night for night in reversed(pending.values())}.values():
                self._try_show(night, [uri for uri, entry in pending.items() if entry.run == night.run])
            self._tag_live(use_case)
        except Exception as error:
            step.log.warning("MLflow does not show all runs yet, the next run tries again: %s", error)

    def _try_show(self, night: PendingNight, uris: list[str]) -> None:
        """Show a run; one that the server refuses stays pending, and is in nobody's way."""
        folder = storage.join(self.state.runs, night.run)
        summary = storage.join(folder, "summary.json")
        try:
            if storage.exists(summary):  # otherwise the run is deleted
                tracked = derive(Summary.model_validate(storage.read_json(summary)), folder, night.is_backfill)
                with connection.connect(self.url, "tracking server") as client:
                    nights.track(client, tracked)
        except ValueError as error:
            step.log.warning("MLflow does not show run %s, which stays in %s: %s", night.run, self.folder, error)
            return
        for uri in uris:
            storage.remove(uri)

    def _tag_live(self, use_case: str) -> None:
        record = release_record.read(ReleaseRef.from_state(self.state, use_case))
        if record:
            with connection.connect(self.url, "tracking server") as client:
                live.tag_runs(client, use_case, record)


def derive(summary: Summary, folder: str, is_backfill: bool) -> TrackedNight:
    """Return what MLflow shows of a run.

    Args:
        summary: of the run.
        folder: the run's, with its report.
        is_backfill: whether it was run for a past day.
    """
    tags = dict(_list_tags(summary, is_backfill))
    files = {name: storage.join(folder, name) for name in ("report.html", "summary.json")}
    pages = {path: summary.links[name] for name, path in PAGES.items() if name in summary.links}
    return TrackedNight(
        use_case=summary.config["name"],
        run=summary.run,
        is_complete=summary.status == "succeeded",
        finished=summary.finished,
        values=RunValues(dict(_list_parameters(summary)), dict(_list_metrics(summary)), tags),
        candidates=_read_candidates(summary),
        files=files | pages,
    )


def _list_parameters(summary: Summary) -> Iterator[tuple[str, str]]:
    yield "logical_date", str(summary.logical_date)
    yield "config_sha256", storage.fingerprint(summary.config)
    yield "code_version", summary.code_version
    yield "data", summary.data
    yield "device", summary.device
    for name, window in summary.windows:
        yield f"{name}_days", _describe_days(window)
    yield from ((f"{name}_sha256", digest) for name, digest in summary.hashes if digest)
    if summary.selected:
        yield "candidate", summary.selected


def _describe_days(window: DateRange) -> str:
    return f"{window.first} .. {window.last}"


def _list_metrics(summary: Summary) -> Iterator[tuple[str, float]]:
    scores = summary.models.get(summary.selected or "", {})
    rows = {f"rows_{name}": count for name, count in summary.rows if isinstance(count, int)}
    drift = summary.verdicts.drift
    others = {
        "run_machine_seconds": sum(step.seconds or 0.0 for step in summary.steps.values()),
        "run_usd": summary.usd,
        "drifted_share": drift.drifted_share if drift else None,
    }
    yield from ((name, value) for name, value in (scores | rows | others).items() if value is not None)


def _list_tags(summary: Summary, is_backfill: bool) -> Iterator[tuple[str, str]]:
    yield "pipeline", summary.pipeline or " ".join(summary.steps)
    yield "status", summary.status
    yield "backfill", str(is_backfill).lower()
    yield NOTE, _describe(summary)
    if summary.model_version:
        yield VERSION, str(summary.model_version)
    for judge, verdict in summary.verdicts:
        if verdict:
            yield judge, verdict.decision
            yield f"{judge}_reasons", " ".join(verdict.reasons)
    for name, entry in summary.steps.items():
        if entry.state == "failed":
            yield f"{name}_error", entry.error or "unknown"


def _describe(summary: Summary) -> str:
    """Return verdicts and errors as Markdown."""
    verdicts = {name: [verdict.decision, *verdict.reasons] for name, verdict in summary.verdicts if verdict}
    errors = {name: ["failed", entry.error or ""] for name, entry in summary.steps.items() if entry.state == "failed"}
    texts = {
        name.capitalize(): markdown.items([markdown.strong(decision), *reasons])
        for name, (decision, *reasons) in (verdicts | errors).items()
    }
    return markdown.page(f"{summary.config['name']}, {summary.logical_date}: {summary.status}", texts)


def _read_candidates(summary: Summary) -> dict[str, RunValues]:
    """Return what the nested run of each candidate shows; none where the training has no result."""
    if "model" not in summary.links:
        return {}
    model = package.ModelPackage.read(summary.links["model"])
    return {
        name: RunValues(
            {"kind": candidate.kind} | {key: str(value) for key, value in candidate.parameters.items()},
            {f"validation_{key}": value for key, value in candidate.validation.items() if value is not None}
            | {key: value for key, value in summary.models.get(name, {}).items() if value is not None}
            | {"fit_seconds": candidate.seconds},
            {"selected": str(name == model.selected).lower()},
            candidate.losses,
        )
        for name, candidate in model.candidates.items()
    }
