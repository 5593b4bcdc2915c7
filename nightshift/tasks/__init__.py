"""The kinds of model: tables, images, texts, and whatever other packages bring.

A task is a package with a module for each step that differs by task; `protocol.py` says what a step may ask of it.
Nothing outside knows which tasks there are.
"""

from dataclasses import dataclass
from importlib import import_module, metadata
from importlib.util import find_spec
from types import ModuleType
from typing import cast

from nightshift.errors import UserError, nearest
from nightshift.tasks import protocol

GROUP = "nightshift.tasks"  # entry points of other packages: the task's name -> a `Task`


@dataclass(frozen=True)
class Task:
    """A kind of model.

    Attributes:
        kind: its name, `task.kind` in the config.
        packages: where its modules are looked for, in this order: its own, then what it shares with other tasks.
    """

    kind: str
    packages: tuple[str, ...]

    @property
    def simulator(self) -> protocol.Simulating:
        """Rows to begin with."""
        return cast("protocol.Simulating", self.module("simulator"))

    @property
    def ingestion(self) -> protocol.Ingestion:
        """Which rows are good."""
        return cast("protocol.Ingestion", self.module("ingestion"))

    @property
    def labels(self) -> protocol.Labels:
        """What labels are."""
        return cast("protocol.Labels", self.module("labels"))

    @property
    def features(self) -> protocol.Features:
        """What models take of events."""
        return cast("protocol.Features", self.module("features"))

    @property
    def training(self) -> protocol.Training:
        """What trains and chooses a model."""
        return cast("protocol.Training", self.module("training"))

    @property
    def profiling(self) -> protocol.Profiling:
        """The training as something that is measured."""
        return cast("protocol.Profiling", self.module("profiling"))

    @property
    def evaluation(self) -> protocol.Evaluation:
        """How good a model is, and whether it may replace the champion."""
        return cast("protocol.Evaluation", self.module("evaluation"))

    @property
    def optimization(self) -> protocol.Optimization:
        """On what other forms of a graph are measured."""
        return cast("protocol.Optimization", self.module("optimization"))

    @property
    def scoring(self) -> protocol.Scoring:
        """How days are scored."""
        return cast("protocol.Scoring", self.module("scoring"))

    @property
    def drift(self) -> protocol.DriftTask:
        """What may have changed since a model was trained."""
        return cast("protocol.DriftTask", self.module("drift"))

    @property
    def release(self) -> protocol.Release:
        """How wrong versions are."""
        return cast("protocol.Release", self.module("release"))

    @property
    def examples(self) -> protocol.Examples:
        """What a server is asked."""
        return cast("protocol.Examples", self.module("examples"))

    @property
    def metrics(self) -> protocol.Metrics:
        """What metrics are called."""
        return cast("protocol.Metrics", self.module("metrics"))

    def module(self, name: str) -> ModuleType:
        """Return a module of the task.

        Raises:
            UserError: when none of its packages has it.
        """
        for package in self.packages:
            if find_spec(f"{package}.{name}"):
                return import_module(f"{package}.{name}")
        raise UserError(f"task.kind {self.kind!r} has no module {name!r} in {' or '.join(self.packages)}; add one")


BUILT_IN = (
    Task("tabular", ("nightshift.tasks.tabular",)),
    Task("image-classification", ("nightshift.tasks.images", "nightshift.tasks.classification")),
    Task("text-classification", ("nightshift.tasks.texts", "nightshift.tasks.classification")),
)


def find(kind: str) -> Task:
    """Return a task by its name: built in, or from an installed package.

    Raises:
        UserError: when there is none, naming those there are.
    """
    tasks = {task.kind: task for task in BUILT_IN}
    if kind not in tasks:
        installed = {point.name: point for point in metadata.entry_points(group=GROUP)}
        if kind in installed:
            task: Task = installed[kind].load()
            return task
        allowed = [*tasks, *installed]
        raise UserError(f"task.kind: is {kind!r}; allowed: {', '.join(allowed)}{nearest(kind, allowed)}")
    return tasks[kind]
