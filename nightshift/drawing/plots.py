"""Charts and bars laid out for inline SVG: the page colors them, so they suit light, dark and paper."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle
from math import log10, sqrt

from nightshift.contracts.section import Axis, Bars, Chart, Series
from nightshift.stats.figures import format_value

SIDE = 240.0  # edge of a chart's square, in units of the SVG
WIDTH, HEIGHT = 560.0, 120.0  # size of a bar chart
LABELS = 8  # at most so many below bars, or they run into each other
DASHES = ("5 4", "2 3", "9 3 2 3")  # dashes of references, in turn
HEADROOM = 1.1  # above the highest bar, for its value


@dataclass(frozen=True)
class ChartPoint:
    """A marker, or a tick by one of its coordinates, with its text."""

    x: float
    y: float
    text: str


@dataclass(frozen=True)
class SeriesPlot:
    """A series: an SVG path and its dashes, the path empty without points or where markers are wanted; its markers."""

    name: str
    style: str
    dashes: str
    path: str
    markers: list[ChartPoint]


@dataclass(frozen=True)
class Plot:
    """A chart in a square of side `SIDE`; ticks have the coordinate of their own axis, 0 for the other one."""

    x_ticks: list[ChartPoint]
    y_ticks: list[ChartPoint]
    series: list[SeriesPlot]


@dataclass(frozen=True)
class Bar:
    """One bar: its left edge, width, top and height, its value as text, and its label, empty where there is no room.

    The value stands above it where all bars have room for theirs, or else above the highest one.
    """

    x: float
    width: float
    y: float
    height: float
    text: str
    label: str
    name: str
    has_text: bool


def chart(block: Chart) -> Plot:
    """Lay out a chart."""
    return Plot(
        x_ticks=[ChartPoint(_along(block.x, tick), 0, f"{tick:g}") for tick in block.x.ticks],
        y_ticks=[ChartPoint(0, _up(block.y, tick), f"{tick:g}") for tick in block.y.ticks],
        series=[
            _lay_out(block, series, dashes) for series, dashes in zip(block.series, _dashes(block.series), strict=True)
        ],
    )


def bars(block: Bars) -> list[Bar]:
    """Lay out bars, from 0 to the highest value or the limit."""
    whole = HEADROOM * max([*block.heights, block.limit or 0, 0]) or 1.0
    step, every = WIDTH / max(len(block.heights), 1), -(-len(block.heights) // LABELS)
    highest = block.heights.index(max(block.heights)) if block.heights else None
    return [
        Bar(
            x=round(step * (number + 0.1), 1),
            width=round(0.8 * step, 1),
            y=round(HEIGHT * (1 - value / whole), 1),
            height=round(HEIGHT * value / whole, 1),
            text=format_value(value, block.format),
            label="" if number % every else label,
            name=label,
            has_text=every == 1 or number == highest,
        )
        for number, (label, value) in enumerate(zip(block.labels, block.heights, strict=True))
    ]


def _dashes(all_series: Sequence[Series]) -> Iterator[str]:
    """Yield the dashes of each series: those of references differ."""
    patterns = cycle(DASHES)
    return (next(patterns) if series.style == "reference" else "none" for series in all_series)


def _lay_out(block: Chart, series: Series, dashes: str) -> SeriesPlot:
    points = [(_along(block.x, x), _up(block.y, y)) for x, y in series.points]
    if series.style != "points":
        return SeriesPlot(series.name, series.style, dashes, _path(points), [])
    texts = series.notes or [f"{x:g}, {y:g}" for x, y in series.points]
    markers = [ChartPoint(x, y, text) for (x, y), text in zip(points, texts, strict=True)]
    return SeriesPlot(series.name, series.style, dashes, "", markers)


def _along(axis: Axis, value: float) -> float:
    return round(SIDE * _share(axis, value), 1)


def _up(axis: Axis, value: float) -> float:
    # SVG counts downwards
    return round(SIDE * (1 - _share(axis, value)), 1)


def _share(axis: Axis, value: float) -> float:
    """Return how far along an axis a value lies, 0 to 1; what is beyond it is drawn at its end."""
    low, high, at = (_scale(axis, bound) for bound in (axis.ticks[0], axis.ticks[-1], max(value, axis.ticks[0])))
    return min(max((at - low) / (high - low), 0.0), 1.0)


def _scale(axis: Axis, value: float) -> float:
    if axis.scale == "log":
        return log10(value)
    return sqrt(max(value, 0.0)) if axis.scale == "sqrt" else value


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:g},{y:g}" for x, y in points) if points else ""
