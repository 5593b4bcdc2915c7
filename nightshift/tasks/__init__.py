"""The kinds of model: tables, images, texts, language models, and whatever other packages bring.

A task is a package with a module for each step that differs by task; `protocol.py` says what a step may ask of it.
Nothing outside knows which tasks there are.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import TypeVar, cast

from nightshift import kinds
from nightshift.kinds import TaskKind
from nightshift.tasks import base, protocol

Q = TypeVar("Q")


@dataclass(frozen=True)
class Task:
    """A kind of model, with the modules that steps ask.

    Attributes:
        kind: where they are.
    """

    kind: TaskKind

    @property
    def simulator(self) -> protocol.SimulationTask:
        """Rows to begin with."""
        return cast("protocol.SimulationTask", self.module("simulator"))

    @property
    def ingestion(self) -> protocol.IngestionTask:
        """Which rows are good."""
        return cast("protocol.IngestionTask", self.module("ingestion"))

    @property
    def labels(self) -> protocol.LabelsTask:
        """What labels are, where the columns have one."""
        return cast("protocol.LabelsTask", self.module("labels"))

    @property
    def features(self) -> protocol.FeaturesTask:
        """What models take of events."""
        return cast("protocol.FeaturesTask", self.module("features"))

    @property
    def training(self) -> protocol.TrainingTask:
        """What trains and chooses a model."""
        return cast("protocol.TrainingTask", self.module("training"))

    @property
    def profiling(self) -> protocol.ProfilingTask:
        """The training as something that is measured."""
        return cast("protocol.ProfilingTask", self.module("profiling"))

    @property
    def evaluation(self) -> protocol.EvaluationTask:
        """How good a model is, and whether it may replace the champion."""
        return cast("protocol.EvaluationTask", self.module("evaluation"))

    @property
    def optimization(self) -> protocol.OptimizationTask:
        """On what other forms of a graph are measured."""
        return cast("protocol.OptimizationTask", self.module("optimization"))

    @property
    def scoring(self) -> protocol.ScoringTask:
        """How days are scored."""
        return cast("protocol.ScoringTask", self.module("scoring"))

    @property
    def drift(self) -> protocol.DriftTask:
        """What may have changed since a model was trained."""
        return cast("protocol.DriftTask", self.module("drift"))

    @property
    def release(self) -> protocol.ReleaseTask:
        """How wrong versions are."""
        return cast("protocol.ReleaseTask", self.module("release"))

    @property
    def examples(self) -> protocol.ExamplesTask:
        """What a server is asked."""
        return cast("protocol.ExamplesTask", self.module("examples"))

    @property
    def metrics(self) -> protocol.MetricsTask:
        """What metrics are called."""
        return cast("protocol.MetricsTask", self.module("metrics"))

    @property
    def serving(self) -> base.ServingTask:
        """What answers beside the local endpoint."""
        return self._ask("serving", base.ServingTask)

    def _ask(self, name: str, question: type[Q]) -> Q:
        """Return the answers of the task's module to a question, or the question's defaults."""
        module = self.kind.find_module(name)
        answer: type[Q] = getattr(module, question.__name__, question)
        return answer()

    def module(self, name: str) -> ModuleType:
        """Return a module; see `TaskKind.module`."""
        return self.kind.module(name)


def find(kind: str) -> Task:
    """Return a task by its name; see `nightshift.kinds.find`."""
    return Task(kinds.find(kind))


def load_tasks() -> Iterator[Task]:
    """Yield every task that is installed."""
    yield from map(Task, kinds.load_kinds().values())
