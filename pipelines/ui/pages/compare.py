"""Two runs, or two versions, side by side: what differs."""

from collections.abc import Iterator, Mapping
from typing import Any

from nightshift.contracts.browsing import ComparedValue, SideBySide
from nightshift.contracts.section import Cell, TableColumn
from nightshift.runtime.errors import UserError
from nightshift.stats.figures import format_value
from pipelines.ui.pages import models
from pipelines.ui.screen import PageLink, PagePanel, Screen, make_href, make_row, make_table, shorten
from pipelines.workspace import Workspace, read_summary

LISTED, WORD = 300, 16
NOT_COMPARED = ("run", "started", "finished", "links", "curl")  # what always differs


def read_runs(workspace: Workspace, params: Mapping[str, str]) -> SideBySide:
    """Return what differs in the summaries of two runs.

    Raises:
        UserError: when there is no such run, or one has no summary.
    """
    names = [params.get("left", ""), params.get("right", "")]
    summaries = []
    for name in names:
        run = workspace.index.find(name)
        summary = workspace.index.derive(run, read_summary)
        if not summary:
            raise UserError(f"{run.name} has no summary; write it with `nightshift report {run.name}`")
        summaries.append({key: value for key, value in summary.items() if key not in NOT_COMPARED})
    return compare(names[0], names[1], *summaries)


def read_versions(workspace: Workspace, params: Mapping[str, str]) -> SideBySide:
    """Return what differs in two versions.

    Raises:
        UserError: when there is no such version.
    """
    numbers = [params.get("left", ""), params.get("right", "")]
    records = [models.read_version(workspace, {**params, "version": number}) for number in numbers]
    documents = [
        {
            "evaluation": record.decision,
            "measures": {measure.name: measure.value for measure in record.measures},
            "tags": record.tags,
            "sha256": record.sha256,
            "live_since": record.listed.live_since,
        }
        for record in records
    ]
    return compare(numbers[0], numbers[1], *documents)


def compare(left: str, right: str, first: Mapping[str, Any], second: Mapping[str, Any]) -> SideBySide:
    """Return the leaves in which two documents differ."""
    sides = dict(_flatten(first)), dict(_flatten(second))
    names = list(dict.fromkeys([*sides[0], *sides[1]]))
    differing = [name for name in names if sides[0].get(name) != sides[1].get(name)]
    values = [
        ComparedValue(name=shorten(name), left=sides[0].get(name), right=sides[1].get(name))
        for name in differing[:LISTED]
    ]
    return SideBySide(
        left=left,
        right=right,
        equal=len(names) - len(differing),
        values=values,
        left_out=max(len(differing) - LISTED, 0),
    )


def show_runs(comparison: SideBySide) -> Screen:
    """Return the page of two runs."""
    sides = {"First": comparison.left, "Second": comparison.right}
    links = [PageLink(f"{title}: {shorten(name)}", make_href("runs", name)) for title, name in sides.items()]
    return _show(comparison, "Two runs", links)


def show_versions(comparison: SideBySide) -> Screen:
    """Return the page of two versions."""
    return _show(comparison, f"Versions {comparison.left} and {comparison.right}", [])


def _show(comparison: SideBySide, title: str, links: list[PageLink]) -> Screen:
    columns = [
        TableColumn(title="What"),
        TableColumn(title="First"),
        TableColumn(title="Second"),
        TableColumn(title="Change", format="plain"),
    ]
    rows = [
        make_row([value.name, _write(value.left), _write(value.right), _subtract(value)]) for value in comparison.values
    ]
    more = f", of which the first {len(rows)} are shown" if comparison.left_out else ""
    return Screen(
        title=title,
        lead=f"{len(rows) + comparison.left_out} values differ{more}; {comparison.equal} are the same.",
        links=links,
        panels=[PagePanel("Differences", [make_table("", columns, rows, "Nothing differs.")])],
    )


def _write(value: str | float | None) -> str | None:
    """Return a value as text; a hash, which no line can break, only begins."""
    if isinstance(value, str):
        return value if " " in value else shorten(value, WORD)
    return None if value is None else format_value(value, "plain")


def _subtract(value: ComparedValue) -> Cell:
    numbers = [side for side in (value.left, value.right) if isinstance(side, int | float)]
    return numbers[1] - numbers[0] if len(numbers) == 2 else None


def _flatten(value: Any, path: str = "") -> Iterator[tuple[str, str | float | None]]:
    """Yield the leaves of a JSON document with their paths."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _flatten(part, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from _flatten(part, f"{path}.{number}")
    elif value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
        yield path, value
    else:
        yield path, shorten(str(value))
