"""How blocks of sections become HTML: the templates that reports and the UI share, with charts as inline SVG."""

from collections.abc import Callable
from dataclasses import dataclass

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from nightshift.contracts.section import Row, TableColumn
from nightshift.drawing import formats, plots

HEADROOM = 1.25  # multiple of a limit, so that its mark never lies on the edge of the bar
REASONS = 3  # before the rest is folded


@dataclass(frozen=True)
class Location:
    """A URI and its href from the page, None where the page cannot link it."""

    uri: str
    href: str | None


def make_environment(package: str, locate: Callable[[str], Location]) -> Environment:
    """Return the environment of a package's templates, which import `macros.html.j2` and include `report.css`.

    Args:
        package: whose folder `templates` is looked into first.
        locate: returns where a URI lies, seen from the page.
    """
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("nightshift.drawing")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"shown": formats.format_cell, "moment": formats.moment, "location": locate}
    environment.filters |= {"chart": plots.chart, "bars": plots.bars, "whole": whole, "number": formats.number}
    environment.filters["tile_columns"] = tile_columns
    return environment


def whole(column: TableColumn, position: int, rows: list[Row]) -> float:
    """Return the value whose bar fills a column's width."""
    limits = [] if column.limit is None else [HEADROOM * column.limit]
    return max([*limits, *(formats.number(row.cells[position]) for row in rows)], default=0) or 1.0


def tile_columns(count: int) -> int:
    """Return how many tiles stand side by side, so that the last row of so many has the fewest holes."""
    return min((4, 3, 5), key=lambda columns: -count % columns) if count > 4 else 4
