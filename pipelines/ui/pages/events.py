"""Events: those of a customer, or of any other identifier, and one with its features and scores."""

from collections.abc import Mapping, Sequence

from nightshift.contracts.listings import EventList, ScoredEvent
from nightshift.contracts.section import Block, Cell, Row, TableColumn
from nightshift.data.dates import parse_date
from nightshift.runtime.errors import UserError
from pipelines import event_search
from pipelines.event_search import ID, EventQuery
from pipelines.ui.pages.runs import link_use_case
from pipelines.ui.screen import PageChoice, PageLink, PagePanel, Screen, make_href, make_row, make_table, shorten
from pipelines.workspace import Workspace

VALUES = 6  # columns of an event in a list
KNOWN = (ID, "event_time", "model_version")


def read(workspace: Workspace, params: Mapping[str, str]) -> EventList:
    """Return the events of a use case with the identifier in the parameters.

    Raises:
        UserError: when no run has read events, or a parameter is wrong.
    """
    last = params.get("last")
    query = EventQuery(params.get("column", ""), params.get("id", "").strip(), parse_date(last) if last else None)
    return event_search.find_events(workspace, params["name"], query)


def show(events: EventList) -> Screen:
    """Return the page: a form, and the events that it leads to."""
    name, is_searched = events.use_case, bool(events.searched)
    columns = {column: column for column in dict.fromkeys([events.column, *events.columns])}
    form = PageChoice(
        "Find events", make_href("events", name), {"column": columns}, {"id": shorten(events.value)}, button="Find"
    )
    older = [PageLink("Older days", _continue(events))] if events.older else []
    listed = PagePanel("", [_tabulate(name, events.events)])
    return Screen(
        title=f"{len(events.events) + events.left_out:,} events" if is_searched else f"Events of {shorten(name)}",
        lead=f"{events.column} {shorten(events.value)}" if is_searched else "By a customer's or another identifier",
        reasons=_explain(events),
        links=[*older, *link_use_case(name)],
        panels=[listed] if is_searched else [],
        choices=[form],
    )


def read_event(workspace: Workspace, params: Mapping[str, str]) -> EventList:
    """Return one event of a day, with its features.

    Raises:
        UserError: when the day has no such event, or was not read.
    """
    query = EventQuery(ID, params["event"], parse_date(params["day"]), days=1, with_features=True)
    events = event_search.find_events(workspace, params["name"], query)
    if not events.events:
        raise UserError(f"{params['day']} has no event {shorten(params['event'])!r} that a run has read")
    return events


def show_event(events: EventList) -> Screen:
    """Return the page of an event."""
    event, name = events.events[0], events.use_case
    same = [
        PageLink(f"Events of this {column}", make_href("events", name, column=column, id=event.values[column]))
        for column in events.columns
        if column != ID and event.values.get(column)
    ]
    return Screen(
        title=f"Event {shorten(event.event_id)}",
        lead=f"{shorten(name)} · {event.values.get('event_time', event.day)}",
        links=[*same, *link_use_case(name)],
        panels=[
            PagePanel("As ingestion has read it", [_list_values(event.values, "The event is gone.")]),
            PagePanel("Scores", [_tabulate_scores(event.scores)]),
            PagePanel("Features, as the newest run has them", [_list_values(event.features, "No run has made them.")]),
        ],
    )


def _continue(events: EventList) -> str:
    return make_href("events", events.use_case, column=events.column, id=events.value, last=events.older)


def _explain(events: EventList) -> list[str]:
    """Return what was searched."""
    days = events.searched
    if not days:
        return [f"No day was read up to then, with {events.column} {shorten(events.value)}."] if events.value else []
    sentences = [f"Searched {len(days):,} days, {days[-1]} to {days[0]}, {events.rows:,} rows."]
    if events.missing:
        sentences.append(f"The files of {len(events.missing):,} of them are gone.")
    if events.left_out:
        sentences.append(f"{events.left_out:,} further events of these days are left out.")
    return sentences


def _tabulate(name: str, events: Sequence[ScoredEvent]) -> Block:
    names = dict.fromkeys(column for event in events for column in event.values if column != ID)
    shown = list(names)[:VALUES]
    columns = [TableColumn(title=title) for title in ("Event", *map(shorten, shown), "Score", "By version")]
    rows = [_row(name, event, shown) for event in events]
    return make_table("", columns, rows, "No event of these days has it.")


def _row(name: str, event: ScoredEvent, shown: Sequence[str]) -> Row:
    newest = event.scores[-1] if event.scores else {}
    cells: list[Cell] = [event.event_id, *(event.values.get(column, "") for column in shown)]
    cells += [newest.get("score", ""), newest.get("model_version", "")]
    is_flagged = newest.get("flagged") == "True"
    href = make_href("events", name, str(event.day), event.event_id)
    return make_row(cells, href, tag="flagged" if is_flagged else "", tone="bad" if is_flagged else "neutral")


def _tabulate_scores(scores: Sequence[Mapping[str, str]]) -> Block:
    further = dict.fromkeys(column for score in scores for column in score if column not in KNOWN)
    columns = [TableColumn(title="Version"), *(TableColumn(title=shorten(column)) for column in further)]
    rows = [
        make_row([score.get("model_version", ""), *(score.get(column, "") for column in further)]) for score in scores
    ]
    return make_table("", columns, rows, "No version has scored it.")


def _list_values(values: Mapping[str, str], empty: str) -> Block:
    rows = [make_row([column, value]) for column, value in values.items()]
    return make_table("", [TableColumn(title="Column"), TableColumn(title="Value")], rows, empty)
