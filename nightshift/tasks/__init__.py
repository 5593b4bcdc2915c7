"""The kinds of model: tables, images, texts, language models, and whatever other packages bring.

A task is a package with a module for each step that differs by task; `base` has the questions of each step, a class
each with the defaults. Nothing outside knows which tasks there are.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

from nightshift import kinds
from nightshift.kinds import TaskKind
from nightshift.runtime.errors import UserError
from nightshift.tasks.base.drift import DriftTask
from nightshift.tasks.base.evaluation import EvaluationTask
from nightshift.tasks.base.features import FeaturesTask
from nightshift.tasks.base.ingestion import IngestionTask, LabelsTask, SimulationTask
from nightshift.tasks.base.metrics import MetricsTask
from nightshift.tasks.base.optimization import OptimizationTask
from nightshift.tasks.base.profiling import ProfilingTask
from nightshift.tasks.base.release import ReleaseTask
from nightshift.tasks.base.scoring import ScoringTask
from nightshift.tasks.base.serving import ExamplesTask, ServingTask
from nightshift.tasks.base.training import TrainingTask

Q = TypeVar("Q")


class StepQuestion(Generic[Q]):
    """A task's class for a question: that of its module named like the attribute, or the question with its defaults."""

    def __init__(self, question: type[Q]) -> None:
        self.question = question

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, task: "Task", owner: type) -> Q:
        module = task.kind.find_module(self.name)
        answers: type[Q] = getattr(module, self.question.__name__, self.question)
        if missing := sorted(getattr(answers, "__abstractmethods__", ())):
            raise UserError(
                f"task.kind {task.kind.name!r} does not say {', '.join(missing)} of {self.question.__name__}; add a "
                f"module {self.name!r} with a class {self.question.__name__} to {' or '.join(task.kind.packages)}"
            )
        return answers()


@dataclass(frozen=True)
class Task:
    """A kind of model, with its answers to the questions of each step.

    Attributes:
        kind: where they are.
    """

    kind: TaskKind

    simulator = StepQuestion(SimulationTask)
    ingestion = StepQuestion(IngestionTask)
    labels = StepQuestion(LabelsTask)
    features = StepQuestion(FeaturesTask)
    training = StepQuestion(TrainingTask)
    profiling = StepQuestion(ProfilingTask)
    evaluation = StepQuestion(EvaluationTask)
    optimization = StepQuestion(OptimizationTask)
    scoring = StepQuestion(ScoringTask)
    drift = StepQuestion(DriftTask)
    release = StepQuestion(ReleaseTask)
    examples = StepQuestion(ExamplesTask)
    serving = StepQuestion(ServingTask)
    metrics = StepQuestion(MetricsTask)


def find(kind: str) -> Task:
    """Return a task by its name; see `nightshift.kinds.find`."""
    return Task(kinds.find(kind))


def load_tasks() -> Iterator[Task]:
    """Yield every task that is installed."""
    yield from map(Task, kinds.load_kinds().values())
