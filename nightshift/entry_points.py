"""What installed packages bring, as entry points of these groups: tasks, commands, sources, targets and the like.

Nothing of a package is imported before it is needed, and none takes the place of what is built in.
"""

from collections.abc import Mapping
from functools import cache
from importlib import metadata
from importlib.metadata import EntryPoint
from types import MappingProxyType
from typing import Any

TASKS = "nightshift.tasks"  # the task's name -> a `nightshift.kinds.TaskKind`
COMMANDS = "nightshift.commands"  # the command -> a module with `add(commands, words)`; its docstring is the help
SOURCES = "nightshift.sources"  # the scheme of `--data` -> a function of it and the config: an `EventSource`
TARGETS = "nightshift.targets"  # `state.serving.kind` -> a function of its other settings and the model's name
CANDIDATES = "nightshift.candidates"  # a table's candidate's kind -> a `nightshift.candidates.CandidateKind`
RECIPES = "nightshift.recipes"  # a network's kind -> a module with `build`, see `nightshift.models.recipes`
FEATURES = "nightshift.features"  # the function's name -> a `nightshift.data.aggregations.Aggregation`
SCHEMAS = "nightshift.schemas"  # -> a mapping of file names -> artifacts of a package, or what its commands print
PAGES = "nightshift.pages"  # -> a `pipelines.ui.screen.WebPage`
PROFILES = "nightshift.profiles"  # -> a module that explains traces, see `components.profiling.traces`


@cache
def find(group: str) -> Mapping[str, EntryPoint]:
    """Return name -> entry point of a group, in the order of the names."""
    points = {point.name: point for point in _read().select(group=group)}
    return MappingProxyType(dict(sorted(points.items())))


@cache
def _read() -> Any:
    """Return those of all installed packages, whose metadata takes milliseconds to read."""
    return metadata.entry_points()  # of another type before Python 3.12
