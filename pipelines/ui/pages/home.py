"""The first page: what needs a person, and the use cases."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from itertools import chain, islice

from nightshift import storage
from nightshift.contracts.approvals import WaitingVersion
from nightshift.contracts.browsing import AttentionCause, AttentionItem, Overview, RunState, UseCaseState
from nightshift.contracts.release_record import Release
from nightshift.contracts.section import PAGE, Block, Fact, SectionOutcome, TableColumn, Tone
from nightshift.registry import approvals, release_record
from nightshift.registry.release_record import ReleaseRef
from nightshift.runtime.errors import UnavailableError, UserError
from pipelines.run_index import IndexedRun
from pipelines.ui.pages import runs
from pipelines.ui.screen import (
    Box,
    PagePanel,
    Screen,
    format_moment,
    make_href,
    make_row,
    make_table,
    shorten,
    shorten_all,
)
from pipelines.workspace import Workspace

WEEK = timedelta(days=7)
ITEMS, USE_CASES = 30, 50  # shown
REASONS = 3


def read(workspace: Workspace, _: Mapping[str, str]) -> Overview:
    """Return what needs a person, of the week up to the newest run."""
    every = workspace.index.runs()
    problems: list[str] = []
    recent = [run for run in every if run.started >= every[0].started - WEEK]
    names = sorted({run.use_case for run in every if run.use_case})[:USE_CASES]
    releases = _read_releases(workspace, names, problems)
    waiting = _list_waiting(workspace, names, releases, problems)
    items = list(islice(chain(waiting, _list_releases(releases), _list_runs(workspace, recent)), ITEMS + 1))
    return Overview(
        items=items[:ITEMS],
        has_more=len(items) > ITEMS,
        running=[workspace.describe_run(run) for run in recent if runs.find_state(workspace, run) is RunState.RUNNING],
        use_cases=[_describe(workspace, name, releases.get(name)) for name in names],
        runs=len(every),
        problems=[*workspace.index.problems, *problems][:ITEMS],
    )


def show(overview: Overview) -> Screen:
    """Return the page."""
    facts = [
        Fact(label="Need a person", value=f"{len(overview.items)}{' or more' if overview.has_more else ''}"),
        Fact(label="In progress", value=len(overview.running), format="count"),
        Fact(label="Use cases", value=len(overview.use_cases), format="count"),
        Fact(label="Runs", value=overview.runs, format="count"),
    ]
    panels = [PagePanel("Use cases", [_tabulate(overview.use_cases)])]
    if overview.running:
        panels.insert(0, PagePanel("In progress", [runs.tabulate(overview.running)]))
    if overview.problems:
        panels.append(PagePanel("Left out", [runs.list_problems(overview.problems)]))
    return Screen(
        title="Nothing needs a person" if not overview.items else "What needs a person",
        lead="The week up to the newest run",
        tone="bad" if overview.items else "good",
        facts=facts,
        boxes=[_box(item) for item in overview.items],
        panels=panels,
        is_live=bool(overview.running),
    )


def _read_releases(workspace: Workspace, names: Iterable[str], problems: list[str]) -> dict[str, Release]:
    """Return the release records of use cases, as far as they can be read; add to the problems why not."""
    releases = {}
    for name in names:
        try:
            record = read_release(workspace, name)
        except (UserError, UnavailableError) as error:
            problems.append(str(error))
            continue
        if record:
            releases[name] = record
    return releases


def read_release(workspace: Workspace, name: str) -> Release | None:
    """Return the release record of a use case, None where nothing was ever promoted.

    Raises:
        UserError: when it cannot be read, or the name is a path.
    """
    if "/" in name:
        raise UserError(f"use case is {shorten(name)!r}; a name has no slash")
    return release_record.read(ReleaseRef.from_state(workspace.state, name))


def _list_waiting(
    workspace: Workspace, names: Iterable[str], releases: Mapping[str, Release], problems: list[str]
) -> list[AttentionItem]:
    """Return the versions that wait for an approval; add to the problems why those of a use case cannot be read."""
    items = []
    for name in names:
        try:
            waiting = approvals.list_waiting(ReleaseRef.from_state(workspace.state, name), releases.get(name))
        except (UserError, UnavailableError) as error:
            problems.append(str(error))
            continue
        items += [_describe_waiting(name, version) for version in waiting]
    return items


def _describe_waiting(name: str, waiting: WaitingVersion) -> AttentionItem:
    return AttentionItem(
        cause=AttentionCause.APPROVAL,
        use_case=name,
        run=waiting.run or None,
        version=waiting.version,
        logical_date=None,
        title=f"version {waiting.version} waits for an approval",
        reasons=shorten_all(waiting.reasons, REASONS),
    )


def _list_releases(releases: Mapping[str, Release]) -> Iterator[AttentionItem]:
    for name, record in releases.items():
        if challenger := record.challenger:
            paused = ", paused" if record.paused else ""
            title = f"version {challenger.version} in {record.stage}{paused}, {challenger.traffic:.0%} of requests"
            yield AttentionItem(
                cause=AttentionCause.RELEASE,
                use_case=name,
                run=record.run or None,
                logical_date=challenger.trained_until,
                title=title,
                reasons=record.reasons[:REASONS],
            )


def _list_runs(workspace: Workspace, recent: list[IndexedRun]) -> Iterator[AttentionItem]:
    """Yield what is wrong with runs that no later run of the same kind, or day, has made up for."""
    days, kinds = set(), set()
    for run in recent:
        kind = (run.use_case, run.pipeline)
        if (day := (*kind, run.logical_date)) in days:
            continue
        state = runs.find_state(workspace, run)
        if state is RunState.RUNNING:
            continue
        days.add(day)
        if state is not RunState.COMPLETE:
            yield _describe_failure(workspace, run, state)
        elif kind not in kinds:
            kinds.add(kind)
            yield from _list_warnings(workspace, run)


def _describe_failure(workspace: Workspace, run: IndexedRun, state: RunState) -> AttentionItem:
    steps = " and ".join(run.failed[:REASONS])
    title = f"{run.pipeline} failed in {steps}" if run.failed else f"{run.pipeline} stopped before its end"
    errors = workspace.index.try_derive(run, runs.read_errors) or {}
    return _item(AttentionCause(state.value), run, title, list(errors.values()))


def _list_warnings(workspace: Workspace, run: IndexedRun) -> Iterator[AttentionItem]:
    for title, outcome in workspace.index.try_derive(run, read_outcomes) or []:
        if outcome.tone == "bad":
            yield _item(AttentionCause.WARNING, run, f"{title}: {outcome.label or outcome.headline}", outcome.reasons)


def _item(cause: AttentionCause, run: IndexedRun, title: str, reasons: Iterable[str]) -> AttentionItem:
    return AttentionItem(
        cause=cause,
        use_case=run.use_case,
        run=run.name,
        logical_date=run.logical_date,
        title=shorten(title),
        reasons=shorten_all(reasons, REASONS),
    )


def read_outcomes(folder: str) -> list[tuple[str, SectionOutcome]]:
    """Return what became of a run: the headline and the outcomes of its report, which has much else."""
    uri = storage.join(folder, PAGE)
    if not storage.exists(uri):
        return []
    page = storage.read_json(uri)
    outcomes = [("Report", page["headline"]), *page["outcomes"]]
    return [(title, SectionOutcome.model_validate(outcome)) for title, outcome in outcomes]


def _describe(workspace: Workspace, name: str, record: Release | None) -> UseCaseState:
    own = workspace.index.runs(name)
    return UseCaseState(
        use_case=name,
        runs=len(own),
        newest=workspace.describe_run(own[0]),
        champion=record.live.version if record else None,
        champion_since=record.live_since.get(record.live.version) if record else None,
        challenger=record.challenger.version if record and record.challenger else None,
    )


def _box(item: AttentionItem) -> Box:
    about = [shorten(item.use_case or "no use case"), str(item.logical_date or ""), item.title]
    href = make_href("runs", item.run) if item.run else make_href("releases", item.use_case or "")
    if item.version is not None:
        href = make_href("models", item.use_case or "", str(item.version))
    tone: Tone = "neutral" if item.cause in (AttentionCause.RELEASE, AttentionCause.APPROVAL) else "bad"
    return Box(" · ".join(filter(None, about)), "", tone, item.reasons, href)


def _tabulate(use_cases: list[UseCaseState]) -> Block:
    columns = [
        TableColumn(title="Use case"),
        TableColumn(title="Newest run"),
        TableColumn(title="State"),
        TableColumn(title="Started (UTC)"),
        TableColumn(title="Champion"),
        TableColumn(title="Live since (UTC)"),
        TableColumn(title="Runs", format="count"),
    ]
    rows = [
        make_row(
            [
                state.use_case,
                state.newest.pipeline,
                "complete" if state.newest.complete else "unfinished",
                format_moment(state.newest.started),
                _name_versions(state),
                format_moment(state.champion_since),
                state.runs,
            ],
            make_href("use-cases", state.use_case),
        )
        for state in use_cases
    ]
    return make_table("", columns, rows, "There is no run yet; `nightshift run` makes one.")


def _name_versions(state: UseCaseState) -> str:
    if state.champion is None:
        return "none"
    return f"{state.champion}, {state.challenger} in release" if state.challenger else str(state.champion)
