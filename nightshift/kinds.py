"""The kinds of task there are: those built in, and those of installed packages."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import MappingProxyType, ModuleType
from typing import Any

from nightshift import entry_points
from nightshift.runtime.errors import UserError, nearest


@dataclass(frozen=True)
class TaskKind:
    """What a package brings to be a task; nothing of it is imported before it is needed.

    Attributes:
        name: `task.kind` in the config.
        packages: where its modules are looked for, in this order: its own, then what it shares with other tasks.
        config: `module:class` of its config, a `nightshift.config.Config`.
        preprocessing: `module:class` of how a model's rows become its input, in the model's manifest.
        configs: package whose folder holds the configs that ship with it, a YAML file each; empty for none.
        pipeline_tag: what the Hugging Face Hub calls the task; empty where it has no name for it.
    """

    name: str
    packages: tuple[str, ...]
    config: str
    preprocessing: str
    configs: str = ""
    pipeline_tag: str = ""

    @property
    def config_class(self) -> Any:
        """The class of its config."""
        return _load(self.config)

    @property
    def preprocessing_class(self) -> Any:
        """The class of how a model's rows become its input."""
        return _load(self.preprocessing)

    def find_module(self, name: str) -> ModuleType | None:
        """Return a module of the first package that has it; None where none has."""
        for package in self.packages:
            if find_spec(f"{package}.{name}"):
                return import_module(f"{package}.{name}")
        return None

    def module(self, name: str) -> ModuleType:
        """Return a module of the task.

        Raises:
            UserError: when none of its packages has it.
        """
        if module := self.find_module(name):
            return module
        packages = " or ".join(self.packages)
        raise UserError(f"task.kind {self.name!r} has no module {name!r} in {packages}; add one")


ITEMS = "nightshift.tasks.items"  # whose examples suit any images and texts
CLASSIFICATION = "nightshift.tasks.classification"
_KINDS = (
    TaskKind(
        "tabular",
        ("nightshift.tasks.tabular",),
        "nightshift.config.tabular:TabularConfig",
        "nightshift.contracts.preprocessing:TabularPreprocessing",
        pipeline_tag="tabular-classification",
    ),
    TaskKind(
        "tabular-regression",
        ("nightshift.tasks.regression", "nightshift.tasks.tabular"),  # whose ingestion, scoring and examples suit rows
        "nightshift.config.regression:RegressionConfig",
        "nightshift.contracts.preprocessing:RegressionPreprocessing",
        pipeline_tag="tabular-regression",
    ),
    TaskKind(
        "tabular-classification",
        ("nightshift.tasks.multiclass", CLASSIFICATION, "nightshift.tasks.tabular"),
        "nightshift.config.multiclass:MulticlassConfig",
        "nightshift.contracts.preprocessing:MulticlassPreprocessing",
        pipeline_tag="tabular-classification",
    ),
    TaskKind(
        "image-classification",
        ("nightshift.tasks.images", CLASSIFICATION, ITEMS),
        "nightshift.config.images:ImageConfig",
        "nightshift.contracts.preprocessing:ImagePreprocessing",
        pipeline_tag="image-classification",
    ),
    TaskKind(
        "text-classification",
        ("nightshift.tasks.texts", CLASSIFICATION, ITEMS),
        "nightshift.config.texts:TextConfig",
        "nightshift.contracts.preprocessing:TextPreprocessing",
        pipeline_tag="text-classification",
    ),
)
BUILT_IN = MappingProxyType({kind.name: kind for kind in _KINDS})


@cache
def load_kinds() -> Mapping[str, TaskKind]:
    """Return name -> kind; no package takes the place of one that is built in."""
    points = entry_points.find(entry_points.TASKS)
    return MappingProxyType(BUILT_IN | {name: point.load() for name, point in points.items() if name not in BUILT_IN})


def find(name: str) -> TaskKind:
    """Return a kind by its name.

    Raises:
        UserError: when there is none, naming those there are.
    """
    # a DAG that is parsed over and over reads no installed package
    known = BUILT_IN if name in BUILT_IN else load_kinds()
    if name not in known:
        raise UserError(f"task.kind: is {name!r}; allowed: {', '.join(known)}{nearest(name, known)}")
    return known[name]


def _load(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
