"""The page of a run as one HTML file that needs nothing else."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined

from components.reporting import formats, plots
from components.reporting.summary import Summary
from nightshift.contracts.section import Page, Row, Section, TableColumn

HEADROOM = 1.25  # multiple of a limit, so that its mark never lies on the edge of the bar
REASONS = 3  # before the rest is folded


@dataclass(frozen=True)
class Location:
    """A URI and its href from the page, None when it does not lie below it."""

    uri: str
    href: str | None

    @classmethod
    def from_uri(cls, uri: str, folder: str) -> Self:
        """Locate a URI from a page in a folder."""
        path, root = _resolve(uri), _resolve(folder)
        below = path.removeprefix(f"{root}/")
        return cls(uri, None if below == path else quote(below))


def render(page: Page, summary: Summary, folder: str) -> str:
    """Return the HTML.

    Args:
        page: what to show.
        summary: says when and where the run was.
        folder: URI of the folder the page will lie in; what lies below it is linked.
    """
    failed = {name: step.error for name, step in summary.steps.items() if step.state == "failed"}
    return (
        _environment(folder)
        .get_template("report.html.j2")
        .render(page=page, summary=summary, failed=failed, most=REASONS)
    )


def alone(section: Section, folder: str) -> str:
    """Return the HTML of one section that belongs to no run.

    Args:
        section: what to show.
        folder: URI of the folder the page will lie in; what lies below it is linked.
    """
    return _environment(folder).get_template("section.html.j2").render(section=section, most=REASONS)


def whole(column: TableColumn, position: int, rows: list[Row]) -> float:
    """Return the value whose bar fills a column's width."""
    limits = [] if column.limit is None else [HEADROOM * column.limit]
    return max([*limits, *(formats.number(row.cells[position]) for row in rows)], default=0) or 1.0


def tile_columns(count: int) -> int:
    """Return how many tiles stand side by side, so that the last row of so many has the fewest holes."""
    return min((4, 3, 5), key=lambda columns: -count % columns) if count > 4 else 4


def _environment(folder: str) -> Environment:
    environment = Environment(
        loader=PackageLoader("components.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "shown": formats.format_cell,
        "moment": formats.moment,
        "location": lambda u: Location.from_uri(u, folder),
    }
    environment.filters |= {"chart": plots.chart, "bars": plots.bars, "whole": whole, "number": formats.number}
    environment.filters["tile_columns"] = tile_columns
    return environment


def _resolve(uri: str) -> str:
    return uri.rstrip("/") if "://" in uri else str(Path(uri).resolve())
