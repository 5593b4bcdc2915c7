"""The report's two plots, laid out for inline SVG: the page colours them, so they suit light, dark and paper."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

SIDE = 240.0  # of the square that both plots are drawn in, in units of the SVG
Scale = Callable[[float], float]


@dataclass(frozen=True)
class Point:
    """A marker, or a tick by one of its coordinates, with its text."""

    x: float
    y: float
    text: str


@dataclass(frozen=True)
class Plot:
    """A plot of two shares, both axes from 0 to 1.

    Attributes:
        x_label: what runs to the right.
        y_label: what runs up.
        ticks: on the diagonal, for both axes.
        line: the curve as an SVG path, empty when there is no point.
        reference: the line to compare with, as an SVG path.
        markers: points with the text shown on hovering.
    """

    x_label: str
    y_label: str
    ticks: list[Point]
    line: str
    reference: str
    markers: list[Point]


def precision_recall(curve: dict[str, list[float]], positive_share: float) -> Plot:
    """Lay out precision over recall, against that of a random order, which is the share of positives."""
    points = list(zip(curve["recall"], curve["precision"], strict=True))
    ticks = _ticks([0, 0.2, 0.4, 0.6, 0.8, 1], float)
    random_order = [(0.0, positive_share), (1.0, positive_share)]
    return Plot("recall", "precision", ticks, _path(points, float), _path(random_order, float), [])


def calibration(curve: dict[str, list[Any]]) -> Plot:
    """Lay out the observed share of positives over the predicted one.

    Positives are rare, so both axes run by the square root: small shares stay apart and 0 has a place.
    """
    points = list(zip(curve["predicted"], curve["observed"], strict=True))
    ticks = _ticks([0, 0.01, 0.05, 0.2, 0.5, 1], sqrt)
    counted = zip(points, curve["count"], strict=True)
    markers = [
        Point(*_place(point, sqrt), f"{count:,} rows: predicted {point[0]:.3g}, observed {point[1]:.3g}")
        for point, count in counted
    ]
    line, diagonal = _path(points, sqrt), _path([(0, 0), (1, 1)], sqrt)
    return Plot("predicted probability", "observed share of positives", ticks, line, diagonal, markers)


def _place(point: tuple[float, float], scale: Scale) -> tuple[float, float]:
    # SVG counts downwards
    return round(SIDE * scale(point[0]), 1), round(SIDE * (1 - scale(point[1])), 1)


def _path(points: Sequence[tuple[float, float]], scale: Scale) -> str:
    places = [_place(point, scale) for point in points]
    return "M" + "L".join(f"{x:g},{y:g}" for x, y in places) if places else ""


def _ticks(values: Iterable[float], scale: Scale) -> list[Point]:
    return [Point(*_place((value, value), scale), f"{value:g}") for value in values]
