"""Flags in, files out: see `components/reporting/__init__.py`."""

from argparse import Namespace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.common import step, storage
from components.common.config import parse
from components.common.splits import parse_date

if TYPE_CHECKING:
    from components.reporting.core import Found, Head
    from components.reporting.summary import Summary

# file -> the flag of its artifact, and its path inside when that is a folder
FILES = {
    "events": ("events", ""),
    "features": ("features", ""),
    "model": ("model", "model.json"),
    "profile": ("profile", "profile.json"),
    "evaluation": ("evaluation", "evaluation.json"),
    "verdict": ("evaluation", "verdict.json"),
    "scores": ("scores", "scores.json"),
    "drift": ("drift", "drift.json"),
    "drift_verdict": ("drift", "verdict.json"),
    "deployment": ("deployment", ""),
}
PAGES = {
    "trace": ("profile", "trace.json.gz"),
    "evidently": ("drift", "evidently.html"),
    "model_card": ("evaluation", "model_card.md"),
}


def parser() -> step.Parser:
    """Return the step's flags."""
    flags = step.Parser("reporting", "Write the summary and the report of a run.")
    return flags.takes_device().takes(
        config="the use case's config (JSON)",
        date="logical date, YYYY-MM-DD",
        data="where the raw events came from",
        runs="URI of the folder of all runs",
        run="the run's id",
        events="URI of the events manifest",
        features="URI of the features manifest",
        model="URI of the model",
        profile="URI of the profile",
        evaluation="URI of the evaluation",
        scores="URI of what the scoring step has written",
        drift="URI of what the drift step has written",
        deployment="URI of the deployment's record",
        summary="URI of the JSON file to write",
        report="URI of the HTML file to write",
        overview="URI of the Markdown file to write",
    )


def body(args: Namespace) -> None:
    """Gather what is there, summarize it, write summary and report twice and the overview once."""
    from components.common.lineage import code_version
    from components.reporting import core, overview, report

    config, day = parse(args.config), parse_date(args.date)
    folder = storage.join(args.runs, args.run)
    found = gather(args, folder)
    head = core.Head(args.run, day, args.device, args.data, config, code_version(), datetime.now(UTC))
    summary = core.summarize(head, found, repeated(args.runs, head, found.record.get("pipeline")))
    page = report.render(summary, found, folder).encode()
    for uri in (args.report, storage.join(folder, "report.html")):
        storage.write_bytes(uri, page)
    for uri in (args.summary, storage.join(folder, "summary.json")):
        storage.write_json(uri, summary.model_dump(mode="json"))
    storage.write_bytes(args.overview, overview.render(summary).encode())
    point_latest(args.runs, summary)
    step.log.info("%s: %s", summary.status, storage.join(folder, "report.html"))


def gather(args: Namespace, folder: str) -> "Found":
    """Read what the steps of a run left so far."""
    from components.reporting.core import Found

    places = {name: _place(args, *where) for name, where in (FILES | PAGES).items()}
    links = {name: uri for name, uri in places.items() if storage.exists(uri)}
    record = storage.join(folder, "run.json")
    return Found(
        files={name: storage.read_json(uri) for name, uri in links.items() if name in FILES},
        measures=_measures(args.executor_input),
        record=storage.read_json(record) if storage.exists(record) else {},
        links=links,
    )


def repeated(runs: str, head: "Head", pipeline: str | None) -> dict[str, Any] | None:
    """Return the summary of the newest earlier run that has to have given the same; None without one."""
    from components.reporting import core

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


def point_latest(runs: str, summary: "Summary") -> None:
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


def _starts_later(uri: str, summary: "Summary") -> bool:
    started = storage.read_json(uri).get("started") if summary.started and storage.exists(uri) else None
    return bool(started and summary.started and datetime.fromisoformat(started) > summary.started)


def _place(args: Namespace, flag: str, path: str) -> str:
    uri: str = getattr(args, flag)
    return storage.join(uri, path) if path else uri


def _measures(executor_input: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the metadata of each input artifact, which the step that made it has measured."""
    inputs = executor_input.get("inputs", {}).get("artifacts", {})
    return {name: value["artifacts"][0].get("metadata", {}) for name, value in inputs.items()}


if __name__ == "__main__":
    step.run(parser(), body)
