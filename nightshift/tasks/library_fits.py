"""Candidates that a library fits in one call, on one matrix: what tables of numbers and of classes share."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar

from nightshift.contracts.package import ModelPackage
from nightshift.contracts.profile import PhaseName
from nightshift.models.tensors import Tensors, by_name
from nightshift.tasks.base import profiling as base
from nightshift.tasks.base.training import TrainingSetup, TrainingTask
from nightshift.tasks.fitting import FitSpec, Fitted
from nightshift.tasks.named_inputs import InputRows


@dataclass(frozen=True)
class LibrarySample(InputRows):
    """Training rows.

    Attributes:
        setup: of the training.
    """

    setup: TrainingSetup[Any]

    def spec(self, name: str) -> FitSpec:
        """Return what is fitted of a candidate, besides the rows."""
        task, field, nullable = self.setup.config.task, f"task.candidates.{name}.parameters", bool(self.inputs.nullable)
        parameters = task.candidates[name].parameters
        return FitSpec(field, parameters, task.seed, task.threads, self.setup.device, nullable=nullable)


@dataclass(frozen=True)
class LibraryFit(base.ProfiledFit):
    """A candidate, and the rows that it is fitted on."""

    batch_size: ClassVar = 4096
    sample: LibrarySample

    @property
    def device(self) -> str:
        return self.sample.setup.device

    @property
    def is_network(self) -> bool:
        """False: PyTorch trains none."""
        return False

    @property
    def inputs(self) -> Tensors:
        return by_name(self.sample.matrix)

    def fit(self) -> Fitted:
        return self.sample.fit(self.name)

    def brief(self) -> Callable[[], Fitted]:
        return self.fit


class ProfilingTask(base.ProfilingTask):
    """A candidate on the training rows.

    Attributes:
        training: the task's.
    """

    training: ClassVar[type[TrainingTask]]

    def selected_fit(
        self,
        setup: TrainingSetup[Any],
        model: ModelPackage,
        phase: Callable[[PhaseName], AbstractContextManager[None]],
    ) -> LibraryFit:
        with phase(PhaseName.READ):
            sample = self.training().read_rows(setup).sample(setup.plan.test)
        with phase(PhaseName.MATRIX):
            assert len(sample.matrix)
        return LibraryFit(model.selected, model.candidates[model.selected].kind, sample)
