"""The kinds of task there are: those built in, and those of installed packages."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module, metadata
from types import MappingProxyType
from typing import Any

GROUP = "nightshift.tasks"  # entry points of other packages: the task's name -> a `TaskKind`


@dataclass(frozen=True)
class TaskKind:
    """What a package brings to be a task; nothing of it is imported before it is needed.

    Attributes:
        name: `task.kind` in the config.
        packages: where its modules are looked for, in this order: its own, then what it shares with other tasks.
        section: `module:class` of the config's section `task`.
        preprocessing: `module:class` of how a model's rows become its input, in the model's manifest.
    """

    name: str
    packages: tuple[str, ...]
    section: str
    preprocessing: str


CLASSIFICATION = "nightshift.tasks.classification"
BUILT_IN = (
    TaskKind(
        "tabular",
        ("nightshift.tasks.tabular",),
        "nightshift.config.tabular:Tabular",
        "nightshift.contracts.preprocessing:Tabular",
    ),
    TaskKind(
        "image-classification",
        ("nightshift.tasks.images", CLASSIFICATION),
        "nightshift.config.classes:Images",
        "nightshift.contracts.preprocessing:Images",
    ),
    TaskKind(
        "text-classification",
        ("nightshift.tasks.texts", CLASSIFICATION),
        "nightshift.config.classes:Texts",
        "nightshift.contracts.preprocessing:Texts",
    ),
)


@cache
def registered() -> Mapping[str, TaskKind]:
    """Return name -> kind; no package takes the place of one that is built in."""
    installed = {point.name: point.load() for point in metadata.entry_points(group=GROUP)}
    return MappingProxyType(installed | {kind.name: kind for kind in BUILT_IN})


def sections() -> list[Any]:
    """Return the config's section of each kind."""
    return [_load(kind.section) for kind in registered().values()]


def preprocessings() -> list[Any]:
    """Return how each kind's rows become a model's input."""
    return [_load(kind.preprocessing) for kind in registered().values()]


def _load(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
