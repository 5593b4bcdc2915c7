"""Flags in, files out: see `components/reporting/__init__.py`."""

from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from components.reporting import component, core, overview, tracking
from components.reporting.core import RunArtifacts, RunHeader
from components.reporting.summary import Summary
from nightshift import storage
from nightshift.contracts.section import PAGE, read_section
from nightshift.contracts.state import DeploymentTarget
from nightshift.runtime import step
from nightshift.runtime.context import StepContext
from nightshift.runtime.lineage import code_version


def body(context: StepContext) -> None:
    """Gather what is there, summarize it, write summary and report twice, the page's data and the overview once."""
    from components.reporting import page, report

    args, config, day, runs = context.args, context.config, context.day, context.state.runs
    folder = storage.join(runs, args.run)
    artifacts = gather(args.executor_input, folder)
    head = RunHeader(args.run, day, context.device, args.data, config, code_version(), datetime.now(UTC))
    summary = core.summarize(head, artifacts, find_repeated(runs, head, artifacts.record.get("pipeline")))
    run_page = page.compose(summary, artifacts)
    html = report.render(run_page, summary, folder).encode()
    run_page.write(storage.join(folder, PAGE))
    for uri in (args.report, storage.join(folder, "report.html")):
        storage.write_bytes(uri, html)
    for uri in (args.summary, storage.join(folder, "summary.json")):
        storage.write_json(uri, summary.model_dump(mode="json"))
    storage.write_bytes(args.overview, overview.render(run_page, summary).encode())
    point_latest(runs, summary)
    notify(context, summary, artifacts)
    tracking.track(context, summary)
    step.log.info("%s: %s", summary.status, storage.join(folder, "report.html"))


def notify(context: StepContext, summary: Summary, artifacts: RunArtifacts) -> None:
    """Notify the receivers of the config; what goes wrong with that is logged, since no night fails by it."""
    receivers = context.config.notify.receivers
    # what is run for a past day changes nothing that is live
    if not receivers or context.state.target is DeploymentTarget.RECORD_ONLY:
        return
    from components.reporting import notifications
    from nightshift.notify.delivery import Notifier

    notifier = Notifier(context.state.audit, context.config.notify)
    try:
        notifier.add(notifications.derive(summary, artifacts, context.state.runs))
        for outcome in notifier.deliver():
            if outcome.error:
                step.log.warning("%d notifications stay pending: %s", outcome.pending, outcome.error)
    except Exception as error:
        step.log.warning("nobody is notified of this run: %s", error)


def gather(executor_input: dict[str, Any], folder: str) -> RunArtifacts:
    """Read what the steps of a run left so far."""
    inputs = executor_input.get("inputs", {}).get("artifacts", {})
    artifacts: dict[str, str] = {name: value["artifacts"][0]["uri"] for name, value in inputs.items()}
    present = [(artifacts[name], artifact) for name, artifact in core.ARTIFACTS.items() if name in artifacts]
    files = _existing((uri, artifact.files) for uri, artifact in present)
    pages = _existing((uri, artifact.pages) for uri, artifact in present)
    record = storage.join(folder, "run.json")
    return RunArtifacts(
        artifacts=artifacts,
        files={name: storage.read_json(uri) for name, uri in files.items()},
        sections=[section for uri in artifacts.values() if (section := read_section(uri))],
        measures={name: value["artifacts"][0].get("metadata", {}) for name, value in inputs.items()},
        record=storage.read_json(record) if storage.exists(record) else {},
        links=files | pages,
    )


def _existing(paths: Iterable[tuple[str, dict[str, str]]]) -> dict[str, str]:
    """Return the files that exist, name -> URI, of pairs of an artifact's URI and the paths inside it."""
    uris = {name: storage.join(uri, *filter(None, [path])) for uri, files in paths for name, path in files.items()}
    return {name: uri for name, uri in uris.items() if storage.exists(uri)}


def find_repeated(runs: str, head: RunHeader, pipeline: str | None) -> dict[str, Any] | None:
    """Return the summary of the newest earlier run that has to have given the same; None without one."""
    if pipeline is None:
        return None
    # a run's name ends in the time of its start
    names = [
        name for name in storage.names(runs) if name.startswith(f"{head.config.name}-{pipeline}-{head.logical_date}-")
    ]
    for name in sorted((name for name in names if name < head.run), reverse=True):
        uri = storage.join(runs, name, "summary.json")
        if storage.exists(uri) and core.is_repeated_by(earlier := storage.read_json(uri), head, pipeline):
            return dict(earlier)
    return None


def point_latest(runs: str, summary: Summary) -> None:
    """Move the link `<runs>/latest` to a run, unless it points at one that started later; locally only."""
    import fsspec

    fs, root = fsspec.core.url_to_fs(runs)
    if "file" not in fs.protocol or _starts_later(storage.join(runs, "latest", "summary.json"), summary):
        return
    # in the run's own folder, where nobody else makes one and the next attempt finds what a killed one left
    draft = Path(root, summary.run, "latest.tmp")
    try:
        draft.unlink(missing_ok=True)
        draft.symlink_to(summary.run)
        draft.replace(Path(root, "latest"))
    except OSError as error:  # a file system without links, say: no reason to lose a run over
        draft.unlink(missing_ok=True)
        step.log.warning("%s/latest does not point at this run: %s", root, error)


def _starts_later(uri: str, summary: Summary) -> bool:
    started = storage.read_json(uri).get("started") if summary.started and storage.exists(uri) else None
    return bool(started and summary.started and datetime.fromisoformat(started) > summary.started)


if __name__ == "__main__":
    step.run(component.reporting.parser(), body)
