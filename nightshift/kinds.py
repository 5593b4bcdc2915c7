"""The kinds of task there are: those built in, and those of installed packages."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module, metadata
from importlib.util import find_spec
from types import MappingProxyType, ModuleType
from typing import Any

from nightshift.errors import UserError, nearest

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

    def module(self, name: str) -> ModuleType:
        """Return a module of the task.

        Raises:
            UserError: when none of its packages has it.
        """
        for package in self.packages:
            if find_spec(f"{package}.{name}"):
                return import_module(f"{package}.{name}")
        packages = " or ".join(self.packages)
        raise UserError(f"task.kind {self.name!r} has no module {name!r} in {packages}; add one")


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


def find(name: str) -> TaskKind:
    """Return a kind by its name.

    Raises:
        UserError: when there is none, naming those there are.
    """
    known = registered()
    if name not in known:
        raise UserError(f"task.kind: is {name!r}; allowed: {', '.join(known)}{nearest(name, known)}")
    return known[name]


def sections() -> list[Any]:
    """Return the config's section of each kind."""
    return [_load(kind.section) for kind in registered().values()]


def preprocessings() -> list[Any]:
    """Return how each kind's rows become a model's input."""
    return [_load(kind.preprocessing) for kind in registered().values()]


def _load(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
