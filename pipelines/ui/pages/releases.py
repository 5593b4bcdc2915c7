"""Releases: what answers requests now, and each state before with its evidence."""

from collections.abc import Mapping

from nightshift.contracts.release_record import Entry, Release
from nightshift.contracts.section import Fact, Row, TableColumn, Tone
from nightshift.runtime.errors import UserError
from pipelines.ui.pages.home import read_release
from pipelines.ui.pages.runs import link_use_case
from pipelines.ui.screen import (
    ActionForm,
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
from pipelines.workspace import Workspace

LISTED = 200
BAD = "rolled_back"


def read(workspace: Workspace, params: Mapping[str, str]) -> Release:
    """Return the release record of a use case, without its oldest states.

    Raises:
        UserError: when nothing was ever promoted.
    """
    name = params["name"]
    record = read_release(workspace, name)
    if record is None:
        raise UserError(f"nothing of {shorten(name)!r} was ever promoted; `nightshift models` lists the versions")
    return record.model_copy(update={"history": record.history[-LISTED:]})


def show(record: Release) -> Screen:
    """Return the page of a use case's releases."""
    name, challenger = record.use_case, record.challenger
    facts = [
        Fact(label="Champion", value=str(record.live.version), note=_describe_since(record)),
        Fact(label="Stage", value="paused" if record.paused else record.stage.value),
    ]
    if challenger:
        facts.append(Fact(label="Challenger", value=str(challenger.version)))
        facts.append(Fact(label="Its share of requests", value=challenger.traffic, format="percent"))
    columns = [
        TableColumn(title="When (UTC)"),
        TableColumn(title="What"),
        TableColumn(title="Champion"),
        TableColumn(title="Challenger"),
        TableColumn(title="By"),
        TableColumn(title="Evidence"),
    ]
    rows = [_row(entry) for entry in reversed(record.entries)]
    run = [PageLink("The run that did it", make_href("runs", record.run))] if record.run else []
    return Screen(
        title=f"Releases of {shorten(name)}",
        lead=f"{record.action.value.replace('_', ' ').capitalize()}, {format_moment(record.since)} UTC",
        tone="bad" if record.action == BAD or record.paused else "good",
        reasons=shorten_all(record.reasons),
        links=[*run, *link_use_case(name)],
        facts=facts,
        forms=_offer_actions(record),
        panels=[PagePanel("States, the newest first", [make_table("", columns, rows, "")])],
    )


def _offer_actions(record: Release) -> list[ActionForm]:
    offered = [("Resume the release", "resume") if record.paused else ("Hold the release", "hold")]
    offered = offered if record.challenger else []
    offered += [("Roll back", "rollback")] if record.challenger or len(record.trail) > 1 else []
    return [
        ActionForm(title, href) for title, name in offered if (href := make_href("releases", record.use_case, name))
    ]


def _describe_since(record: Release) -> str:
    since = record.live_since.get(record.live.version)
    return f"since {format_moment(since)} UTC" if since else ""


def _row(entry: Entry) -> Row:
    tone: Tone = "bad" if entry.action == BAD else "neutral"
    challenger = entry.challenger
    cells = [
        format_moment(entry.since),
        entry.action.value.replace("_", " "),
        str(entry.live.version),
        f"{challenger.version} ({challenger.traffic:.0%})" if challenger else "",
        entry.by,
        " ".join(entry.reasons[:3]),
    ]
    return make_row(cells, make_href("runs", entry.run) if entry.run else "", tone=tone)
