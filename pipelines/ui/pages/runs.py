"""Runs: a list, how far each has come with the ends of its logs, and its report."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from nightshift import storage
from nightshift.contracts.browsing import RunState, RunSteps, StepProgress
from nightshift.contracts.listings import ListedRun, RunList
from nightshift.contracts.section import Block, Code, Notice, Page, Row, TableColumn, Tone
from pipelines import arguments, documents, ir, records
from pipelines.logs import list_last_lines
from pipelines.run_index import IndexedRun
from pipelines.ui.screen import (
    REASON,
    SENTENCE_LENGTH,
    ActionForm,
    Box,
    FormField,
    PageChoice,
    PageLink,
    PagePanel,
    Screen,
    format_moment,
    make_href,
    make_row,
    make_table,
    shorten,
    shorten_all,
)
from pipelines.workspace import Workspace, read_summary

LISTED = 100
QUIET = timedelta(minutes=15)  # a run that has not written for so long has been stopped
LOG_LINES = 20
LOG = "log.txt"
DEFINITION = "pipeline.yaml"


def read_list(workspace: Workspace, params: Mapping[str, str]) -> RunList:
    """Return the newest runs, or those that started before the one in the parameters."""
    return _list_runs(workspace, workspace.index.runs(), params)


def show_list(runs: RunList) -> Screen:
    """Return the page of the newest runs."""
    unfinished = PageLink("Unfinished runs", make_href("unfinished"))
    return _show_runs(runs, "Runs", "The last to start first", "runs", links=[unfinished])


def read_unfinished(workspace: Workspace, params: Mapping[str, str]) -> RunList:
    """Return the newest runs of which a step has failed, or has not ended."""
    return _list_runs(workspace, [run for run in workspace.index.runs() if not run.complete], params)


def show_unfinished(runs: RunList) -> Screen:
    """Return the page of unfinished runs."""
    every = PageLink("All runs", make_href("runs"))
    return _show_runs(runs, "Unfinished runs", "Failed, stopped or in progress", "unfinished", links=[every])


def read_use_case(workspace: Workspace, params: Mapping[str, str]) -> RunList:
    """Return the newest runs of a use case.

    Raises:
        UserError: when it has none.
    """
    return _list_runs(workspace, workspace.require_runs(params["name"]), params)


def show_use_case(runs: RunList) -> Screen:
    """Return the page of a use case: where to look, and its runs."""
    name = next((run.use_case for run in runs.runs), None) or ""
    screen = _show_runs(runs, shorten(name), "Use case", "use-cases", name, links=link_use_case(name))
    return replace(screen, forms=_offer_start(name))


def _list_runs(workspace: Workspace, runs: Sequence[IndexedRun], params: Mapping[str, str]) -> RunList:
    names, before = [run.name for run in runs], params.get("before")
    first = names.index(before) + 1 if before in names else 0
    listed = [workspace.describe_run(run) for run in runs[first : first + LISTED]]
    return RunList(runs=listed, problems=workspace.index.problems)


def _show_runs(runs: RunList, title: str, lead: str, *path: str, links: list[PageLink]) -> Screen:
    panels = [PagePanel("", [tabulate(runs.runs)])]
    if runs.problems:
        panels.append(PagePanel("Left out", [list_problems(runs.problems)]))
    is_full = len(runs.runs) == LISTED
    older = [PageLink("Older runs", make_href(*path, before=runs.runs[-1].run))] if is_full else []
    choices = [choose_two(runs.runs)] if len(runs.runs) > 1 else []
    return Screen(title=title, lead=lead, links=[*links, *older], panels=panels, choices=choices)


def link_use_case(name: str) -> list[PageLink]:
    """Return the links to the pages about a use case."""
    pages = {
        shorten(name): ("use-cases", name),
        "Models": ("models", name),
        "Releases": ("releases", name),
        "Actions": ("actions", name),
        "Drift": ("drift", name),
        "Data": ("data", name),
        "Events": ("events", name),
    }
    return [PageLink(title, href) for title, parts in pages.items() if (href := make_href(*parts))]


def read_progress(workspace: Workspace, params: Mapping[str, str]) -> RunSteps:
    """Return how far a run has come.

    Raises:
        UserError: when there is no such run.
    """
    run = workspace.index.find(params["run"])
    state = find_state(workspace, run)
    folder = workspace.index.folder(run)
    ended = _read_ended(folder)
    order = dict.fromkeys([*workspace.index.derive(run, read_order), *ended, *_list_started(run, folder)])
    earlier = [other for other in workspace.index.runs(run.use_case) if other.pipeline == run.pipeline]
    after = earlier[earlier.index(run) + 1 :] if run in earlier else []
    return RunSteps(
        run=workspace.describe_run(run),
        state=state,
        steps=[_describe_step(folder, step, ended.get(step), state) for step in order],
        previous=after[0].name if after else None,
    )


def show_progress(progress: RunSteps) -> Screen:
    """Return the page of a run."""
    run = progress.run
    tones: dict[RunState, Tone] = {RunState.COMPLETE: "good", RunState.RUNNING: "neutral"}
    columns = [TableColumn(title="Step"), TableColumn(title="State")]
    columns.append(TableColumn(title="Time", format="seconds", has_bars=True))
    rows = [_row(step) for step in progress.steps]
    logs: list[Block] = [_show_log(step) for step in progress.steps if step.log or step.error]
    return Screen(
        title=f"{shorten(run.pipeline)}: {progress.state}",
        lead=" · ".join(filter(None, [shorten(run.use_case or ""), str(run.logical_date or ""), run.run])),
        tone=tones.get(progress.state, "bad"),
        reasons=[f"Started {format_moment(run.started)} UTC."],
        links=_link_run(progress),
        forms=_offer_retry(progress),
        panels=[PagePanel("Steps", [make_table("", columns, rows, "No step has started."), *logs])],
        is_live=progress.state is RunState.RUNNING,
    )


def read_report(workspace: Workspace, params: Mapping[str, str]) -> Page:
    """Return the report of a run.

    Raises:
        UserError: when there is no such run, or it has no report.
    """
    return workspace.read_report(params["run"])


def show_report(page: Page) -> Screen:
    """Return the report of a run as a page of the UI."""
    return Screen(
        title=shorten(page.headline.headline, SENTENCE_LENGTH),
        lead=f"Report · {shorten(page.use_case)} · {shorten(page.run)}",
        tone=page.headline.tone,
        reasons=shorten_all(page.headline.reasons),
        links=[PageLink("Steps", make_href("runs", page.run)), *link_use_case(page.use_case)],
        facts=page.highlights,
        boxes=[
            Box(shorten(title), outcome.label, outcome.tone, shorten_all(outcome.reasons))
            for title, outcome in page.outcomes
            if outcome.reasons
        ],
        panels=[PagePanel(section.title, section.blocks) for section in page.sections],
    )


def find_state(workspace: Workspace, run: IndexedRun) -> RunState:
    """Return how far a run has come; one that says nothing is running as long as it writes."""
    if run.complete:
        return RunState.COMPLETE
    if run.failed:
        return RunState.FAILED
    written = storage.last_change(workspace.index.folder(run)) or run.started
    return RunState.RUNNING if datetime.now(UTC) - written < QUIET else RunState.STOPPED


def read_errors(folder: str) -> dict[str, str]:
    """Return the failed steps of a run in a folder -> their errors, in one line."""
    failed = {step: end for step, end in _read_ended(folder).items() if end.get("state") == "failed"}
    return {
        step: " ".join((end.get("error") or "The engine recorded no error.").split()) for step, end in failed.items()
    }


def tabulate(runs: Sequence[ListedRun]) -> Block:
    """Return a table of runs."""
    columns = [
        TableColumn(title="Run"),
        TableColumn(title="Use case"),
        TableColumn(title="Pipeline"),
        TableColumn(title="Day"),
        TableColumn(title="Started (UTC)"),
        TableColumn(title="State"),
        TableColumn(title="Report"),
    ]
    rows = [
        make_row(
            [
                run.run,
                run.use_case or "",
                run.pipeline,
                str(run.logical_date or ""),
                format_moment(run.started),
                _describe_state(run),
                "yes" if run.has_report else "no",
            ],
            make_href("runs", run.run),
        )
        for run in runs
    ]
    return make_table("", columns, rows, "There is no run here; `nightshift run` makes one.")


def _describe_state(run: ListedRun) -> str:
    if run.complete:
        return "complete"
    return f"failed in {' and '.join(run.failed)}" if run.failed else "unfinished"


def list_problems(problems: Sequence[str]) -> Block:
    """Return the reasons why something is left out."""
    return Notice(title="These cannot be read", sentences=shorten_all(problems))


def choose_two(runs: Sequence[ListedRun]) -> PageChoice:
    """Return a form that compares two of some runs."""
    names = {run.run: shorten(run.run) for run in runs}
    return PageChoice("Compare two runs", "/compare/runs", {"left": dict(reversed(names.items())), "right": names})


def _offer_retry(progress: RunSteps) -> list[ActionForm]:
    href = make_href("runs", progress.run.run, "retry")
    return [ActionForm("Retry the run", href)] if href and progress.state in (RunState.FAILED, RunState.STOPPED) else []


def _offer_start(name: str) -> list[ActionForm]:
    pipelines = FormField("pipeline", "Pipeline", options=tuple(_list_pipelines()))
    date = FormField("date", "Logical date, YYYY-MM-DD (default: yesterday)", is_required=False)
    href = make_href("use-cases", name, "run")
    return [ActionForm("Start a run", href, [pipelines, date, REASON])] if href else []


def _list_pipelines() -> list[str]:
    """Return the shipped pipelines, the usual one first."""
    return sorted(arguments.list_shipped(), key=lambda name: name != arguments.DEFAULT)


def _link_run(progress: RunSteps) -> list[PageLink]:
    run = progress.run
    links = [PageLink("Report", make_href("runs", run.run, "report"))] if run.has_report else []
    if progress.previous and run.has_report:
        href = make_href("compare", "runs", left=progress.previous, right=run.run)
        links.append(PageLink("Compare with the run before", href))
    return links + (link_use_case(run.use_case) if run.use_case else [])


def _read_ended(folder: str) -> dict[str, dict[str, Any]]:
    """Return the steps of a run that ended -> how, by its record or else its summary."""
    uri = storage.join(folder, records.FILE)
    if storage.exists(uri):
        return dict(records.parse(storage.read_bytes(uri), uri).steps)
    return dict(read_summary(folder).get("steps", {}))


def read_order(folder: str) -> list[str]:
    """Return the names of a run's steps in their order, none where its engine keeps no definition."""
    uri = storage.join(folder, DEFINITION)
    if "://" in folder or not storage.exists(uri):
        return []
    return [task.name for task in ir.interpret(documents.read(Path(uri))).tasks]


def _list_started(run: IndexedRun, folder: str) -> list[str]:
    """Return the steps of an unfinished run that have a log."""
    names = [] if run.complete else storage.names(folder)
    return [name for name in names if storage.exists(storage.join(folder, name, LOG))]


def _describe_step(folder: str, step: str, ended: Mapping[str, Any] | None, state: RunState) -> StepProgress:
    log = storage.join(folder, step, LOG)
    if ended is not None and ended.get("state") != "failed":
        return StepProgress(step=step, state=ended["state"], seconds=ended.get("seconds"), error=None, log=[])
    has_started = storage.exists(log)
    unfinished = "running" if state is RunState.RUNNING else "stopped"
    return StepProgress(
        step=step,
        state="failed" if ended else unfinished if has_started else "waiting",
        seconds=ended.get("seconds") if ended else None,
        error=shorten(ended.get("error") or "", SENTENCE_LENGTH) if ended else None,
        log=[shorten(line, SENTENCE_LENGTH) for line in list_last_lines(log, LOG_LINES)] if has_started else [],
    )


def _row(step: StepProgress) -> Row:
    return make_row([step.step, step.state, step.seconds])


def _show_log(step: StepProgress) -> Block:
    text = "\n".join(step.log) or step.error or ""
    return Code(title=f"The last lines of {shorten(step.step)}", text=text)
