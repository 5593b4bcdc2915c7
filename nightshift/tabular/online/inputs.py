"""From the histories of one event's entities to its numeric inputs, with the batch kernel's arithmetic."""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TypeVar

from nightshift.contracts.preprocessing import Calendar, Feature, FeatureSpec
from nightshift.data.aggregations import WindowValues
from nightshift.tabular import windows
from nightshift.tabular.declarations import EntityGroup, entity_groups, function
from nightshift.tabular.online.event import Event
from nightshift.tabular.online.window import EventWindow, History
from nightshift.tabular.windows import QUARTER

Compute = Callable[[WindowValues], float]
Key = TypeVar("Key")


class EventInputs:
    """How the inputs of one event follow from the histories of its entities.

    Args:
        spec: the features.
        scales: column of numbers -> units in one.
    """

    def __init__(self, spec: FeatureSpec, scales: dict[str, int]) -> None:
        self._calendar, self._timezone, self._has_amount = tuple(spec.calendar), spec.timezone, spec.has_amount
        names = [feature.name for feature in spec.features]
        self._size = len(names)
        self._groups = [_GroupInputs(group, names, scales) for group in entity_groups(spec)]

    def row(self, event: Event, histories: Sequence[History]) -> list[float]:
        """Return the numeric inputs of an event, in the order of `declarations.numeric_inputs`.

        Args:
            event: whose they are.
            histories: of its entities, in the order of `declarations.entity_groups`.
        """
        features = [0.0] * self._size
        for group, history in zip(self._groups, histories, strict=True):
            group.fill(features, history, event.time)
        row = [event.amount] if self._has_amount else []
        row += _calendar(event.time // QUARTER, self._timezone, self._calendar)
        row += features
        row += event.numeric
        return row


class _GroupInputs:
    """The features of one entity by their windows."""

    def __init__(self, group: EntityGroup, names: list[str], scales: dict[str, int]) -> None:
        def end(feature: Feature) -> tuple[int, bool]:
            return group.lag(feature), feature.with_event

        def start(feature: Feature) -> tuple[int, int | None]:
            return feature.length, feature.newest

        self._ends = [
            (
                *bounds,
                [
                    (*size, [_plan_call(feature, names.index(feature.name), scales) for feature in features])
                    for size, features in _group_features(with_same_end, start).items()
                ],
            )
            for bounds, with_same_end in _group_features(group.features, end).items()
        ]

    def fill(self, features: list[float], history: History, time: int) -> None:
        for lag, with_event, starts in self._ends:
            window = EventWindow(history, time, lag, with_event)
            for length, newest, calls in starts:
                window.open(length, newest)
                for position, compute, column, argument, scale in calls:
                    window.column, window.argument, window.scale = column, argument, scale
                    features[position] = float(compute(window))


def _group_features(features: Iterable[Feature], key: Callable[[Feature], Key]) -> dict[Key, list[Feature]]:
    groups: dict[Key, list[Feature]] = {}
    for feature in features:
        groups.setdefault(key(feature), []).append(feature)
    return groups


def _plan_call(feature: Feature, position: int, scales: dict[str, int]) -> tuple[int, Compute, str, int, int]:
    """Return where a feature goes, its function, and what the window turns to."""
    column = feature.column or ""
    return position, function(feature).compute, column, feature.argument, scales.get(column, 1)


@lru_cache(maxsize=4096)
def _calendar(quarter: int, timezone: str, parts: tuple[Calendar, ...]) -> tuple[float, ...]:
    """Return what a zone's calendar shows in a quarter of an hour, counted since 1970."""
    wall = windows.wall_time(quarter, timezone) if parts else 0
    return tuple(float(windows.calendar_value(part, wall)) for part in parts)
