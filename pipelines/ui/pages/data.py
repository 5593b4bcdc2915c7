"""Data: the days that runs have read, what was quarantined with examples, and days without rows."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date
from itertools import islice
from typing import Any

from nightshift import storage
from nightshift.config.columns import Holds
from nightshift.contracts.browsing import DataDay, DataDays, QuarantinedDay, QuarantinedRows
from nightshift.contracts.section import Bars, Block, Cell, Fact, Row, TableColumn, Text
from nightshift.contracts.tables import Partition
from nightshift.runtime.errors import UserError
from nightshift.runtime.printable import printable
from pipelines import event_search
from pipelines.run_index import IndexedRun
from pipelines.ui.pages.runs import link_use_case
from pipelines.ui.screen import PageLink, PagePanel, Screen, make_href, make_row, make_table, shorten
from pipelines.workspace import Workspace

DAYS = 400  # shown
REASON = "quarantine_reason"
EXAMPLES, COLUMNS, CELL = 3, 12, 40
MASK = "***"


def read(workspace: Workspace, params: Mapping[str, str]) -> DataDays:
    """Return the newest days of a use case's data, each as its newest run has read it.

    Raises:
        UserError: when it has no run.
    """
    name = params["name"]
    days: dict[date, DataDay] = {}
    for run, manifest in event_search.read_manifests(workspace, name, event_search.read_events):
        for part in manifest.partitions:
            days.setdefault(day := date.fromisoformat(part.date), _describe(day, run.name, part))
    return DataDays(use_case=name, days=[days[day] for day in sorted(days)][-DAYS:])


def show(data: DataDays) -> Screen:
    """Return the page of a use case's data."""
    name, days = data.use_case, data.days
    empty = [day for day in days if not day.read]
    bad = sum(_count_bad(day) for day in days)
    facts = [
        Fact(label="Days", value=len(days), format="count"),
        Fact(label="Rows read", value=sum(day.read for day in days), format="count"),
        Fact(label="Quarantined", value=bad, format="count"),
        Fact(label="Days without rows", value=len(empty), format="count"),
    ]
    reasons = sum((Counter(day.quarantined) for day in days), Counter[str]())
    return Screen(
        title=f"Data of {shorten(name)}",
        lead=f"{days[0].day} to {days[-1].day}, UTC" if days else "No run has read it yet.",
        tone="bad" if empty else "neutral",
        reasons=[f"No rows on {_list_days(empty)}."] if empty else [],
        links=link_use_case(name),
        facts=facts,
        panels=[
            PagePanel("Rows by day", _draw(days)),
            PagePanel("Quarantined by reason", [_tabulate_reasons(reasons)]),
            PagePanel("Days", [_tabulate(name, days)]),
        ],
    )


def read_quarantine(workspace: Workspace, params: Mapping[str, str]) -> QuarantinedDay:
    """Return what was rejected on a day, as the newest run has read it.

    Raises:
        UserError: when no run has read that day, or its file is gone.
    """
    name, day = params["name"], _parse_day(params["day"])
    for run, manifest in event_search.read_manifests(workspace, name, event_search.read_events):
        part = next((part for part in manifest.partitions if part.date == str(day)), None)
        if part is None:
            continue
        bad = part.details.get("quarantined") or {}
        uri = part.details.get("quarantine_uri")
        rows = _read_rows(event_search.relocate(workspace, name, "quarantine", day, uri)) if bad and uri else []
        masked = _list_identifiers(workspace, run)
        reasons = [_sample(reason, count, rows, masked) for reason, count in Counter(bad).most_common()]
        return QuarantinedDay(use_case=name, day=day, reasons=reasons)
    raise UserError(f"no run of {shorten(name)!r} has read {day}; its page lists the days")


def show_quarantine(quarantine: QuarantinedDay) -> Screen:
    """Return the page of a day's rejected rows."""
    name = quarantine.use_case
    total = sum(reason.rows for reason in quarantine.reasons)
    links = [PageLink("All days", make_href("data", name)), *link_use_case(name)]
    panels = [
        PagePanel(f"{shorten(rejected.reason)}: {rejected.rows:,} rows", [_show_examples(rejected)])
        for rejected in quarantine.reasons
    ]
    return Screen(
        title=f"{total:,} rows quarantined" if total else "No row quarantined",
        lead=f"Data of {shorten(name)} · {quarantine.day}",
        reasons=["Identifiers are masked."] if total else [],
        links=links,
        panels=panels,
    )


def _describe(day: date, run: str, part: Partition) -> DataDay:
    details = part.details
    return DataDay(
        day=day,
        run=run,
        read=details.get("read", part.rows),
        quarantined=details.get("quarantined") or {},
        unlabeled=details.get("unlabeled") or 0,
    )


def _count_bad(day: DataDay) -> int:
    return sum(day.quarantined.values())


def _list_days(days: Sequence[DataDay]) -> str:
    shown = ", ".join(str(day.day) for day in days[:10])
    return f"{shown} and {len(days) - 10} more days" if len(days) > 10 else shown


def _draw(days: Sequence[DataDay]) -> list[Block]:
    if not days:
        return [Text(sentences=["No run has read data yet."])]
    labels = [str(day.day) for day in days]
    bars: list[Block] = [Bars(title="Rows read", labels=labels, heights=[float(day.read) for day in days])]
    if any(day.quarantined for day in days):
        heights = [float(_count_bad(day)) for day in days]
        bars.append(Bars(title="Rows quarantined", labels=labels, heights=heights))
    return bars


def _tabulate_reasons(reasons: Counter[str]) -> Block:
    columns = [TableColumn(title="Reason"), TableColumn(title="Rows", format="count", has_bars=True)]
    return make_table(
        "", columns, [make_row([name, rows]) for name, rows in reasons.most_common(30)], "No row is quarantined."
    )


def _tabulate(name: str, days: Sequence[DataDay]) -> Block:
    columns = [
        TableColumn(title="Day"),
        TableColumn(title="Rows read", format="count"),
        TableColumn(title="Quarantined", format="count"),
        TableColumn(title="Late labels", format="count"),
        TableColumn(title="Read by"),
    ]
    rows = [_row(name, day) for day in reversed(days)]
    return make_table("", columns, rows, "No run has read data yet.")


def _row(name: str, day: DataDay) -> Row:
    cells: list[Cell] = [str(day.day), day.read, _count_bad(day), day.unlabeled, day.run]
    href = make_href("data", name, str(day.day)) if day.quarantined else ""
    return make_row(cells, href, tag="" if day.read else "no rows", tone="neutral" if day.read else "bad")


def _read_rows(uri: str) -> list[dict[str, Any]]:
    """Return all rejected rows of a day."""
    from pyarrow.parquet import read_table

    return list(read_table(storage.arrow_file(storage.read_bytes(uri))).to_pylist())


def _list_identifiers(workspace: Workspace, run: IndexedRun) -> set[str] | None:
    """Return the user's columns that hold identifiers by the config of a run, None where that cannot be read."""
    columns = event_search.read_columns(workspace, run)
    return set(columns.holding(Holds.IDENTIFIER).values()) if columns else None


def _sample(reason: str, count: int, rows: Sequence[Mapping[str, Any]], masked: set[str] | None) -> QuarantinedRows:
    """Return the first rows that a rule has rejected; all values are masked where nobody knows the identifiers."""
    own = [row for row in rows if row.get(REASON) == reason][:EXAMPLES]
    examples = [
        {
            shorten(column): _mask(value) if masked is None or column in masked else _write(value)
            for column, value in islice(row.items(), COLUMNS)
            if column != REASON
        }
        for row in own
    ]
    return QuarantinedRows(reason=shorten(reason), rows=count, examples=examples)


def _mask(value: Any) -> str:
    text = _write(value)
    return f"{text[: len(text) // 2]}{MASK}"


def _write(value: Any) -> str:
    if isinstance(value, bytes):
        return f"({len(value):,} bytes)"
    return "(missing)" if value is None else shorten(printable(str(value)), CELL)


def _show_examples(rows: QuarantinedRows) -> Block:
    columns = [TableColumn(title="Column"), *(TableColumn(title=f"Row {n + 1}") for n in range(len(rows.examples)))]
    names = dict.fromkeys(column for example in rows.examples for column in example)
    values = [make_row([name, *(example.get(name, "") for example in rows.examples)]) for name in names]
    return make_table("The first rows", columns, values, "The file of these rows is gone.")


def _parse_day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise UserError(f"day is {shorten(text)!r}; write YYYY-MM-DD") from None
