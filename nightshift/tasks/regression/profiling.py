"""A candidate of a table of numbers, as something whose training is measured."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import ClassVar

from nightshift.config.regression import RegressionConfig
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.profile import PhaseName
from nightshift.models.tensors import Tensors, by_name
from nightshift.tasks.base import profiling as base
from nightshift.tasks.base.training import TrainingSetup
from nightshift.tasks.fitting import Fitted
from nightshift.tasks.regression.training import NumberRows, NumberSample


@dataclass(frozen=True)
class NumberFit(base.ProfiledFit):
    """A candidate, and the rows that it is fitted on."""

    batch_size: ClassVar = 4096
    sample: NumberSample

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
    """A candidate on the training rows."""

    def selected_fit(
        self,
        setup: TrainingSetup[RegressionConfig],
        model: ModelPackage,
        phase: Callable[[PhaseName], AbstractContextManager[None]],
    ) -> NumberFit:
        with phase(PhaseName.READ):
            sample = NumberRows(setup).sample(setup.plan.test)
        with phase(PhaseName.MATRIX):
            assert len(sample.matrix)
        return NumberFit(model.selected, model.candidates[model.selected].kind, sample)
