"""A model that tells classes of images or texts apart, as something whose training is measured."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import ClassVar

import pandas as pd

from nightshift.config.classes import ClassConfig, ClassTaskConfig
from nightshift.config.task import CandidateConfig
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.profile import PhaseName
from nightshift.items.shards import ItemTable
from nightshift.models.neural.configured import ConfiguredNetwork
from nightshift.models.tensors import Tensors, by_name, row_count
from nightshift.runtime.errors import UserError
from nightshift.tasks.base import profiling as base
from nightshift.tasks.base.training import TrainingSetup
from nightshift.tasks.classification import kinds
from nightshift.tasks.classification.kinds import Candidates
from nightshift.tasks.fitting import Fitted
from nightshift.tasks.items.networks import STEPS, FitSetup, shorten_fit


@dataclass(frozen=True)
class ItemFit(base.ProfiledFit):
    """A candidate.

    Attributes:
        setup: task and device, those of the training.
        items: the training days.
        rows: the training rows.
    """

    batch_size: ClassVar = 256
    setup: FitSetup[ClassTaskConfig]
    items: ItemTable
    rows: pd.DataFrame

    @property
    def is_network(self) -> bool:
        return self._candidates.is_network(self.setup.task, self.name)

    @property
    def device(self) -> str:
        return self.setup.device

    @cached_property
    def inputs(self) -> Tensors:
        return by_name(self.items.inputs(self.rows))

    def fit(self) -> Fitted:
        return self._candidates.fit(self.setup, self.name, self.items, self.rows)

    def brief(self) -> Callable[[], Fitted]:
        if not self.is_network:
            return self.fit
        parameters = shorten_fit(self._candidate.parameters, self._candidates.recipe(self.setup.task, self.name).fit)
        candidate = self._candidate.model_copy(update={"parameters": parameters})
        task = self.setup.task.model_copy(update={"candidates": {self.name: candidate}})
        rows = self.rows.head(STEPS * self._candidates.recipe(task, self.name).fit.batch_size)
        return partial(self._candidates.fit, replace(self.setup, task=task), self.name, self.items, rows)

    @property
    def _candidate(self) -> CandidateConfig:
        return self.setup.task.candidates[self.name]

    @property
    def _candidates(self) -> Candidates:
        return kinds.candidates(self.setup.task.kind)


class ProfilingTask(base.ProfilingTask):
    """The fit of a candidate with the parameters of the config."""

    def selected_fit(
        self,
        setup: TrainingSetup[ClassConfig],
        model: ModelPackage,
        phase: Callable[[PhaseName], AbstractContextManager[None]],
    ) -> ItemFit:
        name, task = model.selected, setup.config.task
        with phase(PhaseName.READ):
            items = ItemTable.read(setup.features, setup.plan.test.train)
        fit = ItemFit(name, task.candidates[name].kind, FitSetup(task, setup.device), items, items.rows)
        with phase(PhaseName.MATRIX):
            assert row_count(fit.inputs) == len(items.rows)
        return fit

    def network(self, config: ClassConfig, name: str, inputs: int | None) -> ConfiguredNetwork:
        task = config.task
        candidates = kinds.candidates(task.kind)
        if not candidates.is_network(task, name):
            raise UserError(f"task.candidates.{name}: its network is frozen, so there is no training to make faster")
        recipe = candidates.recipe(task, name)
        shape = {key: value for key, value in vars(recipe).items() if isinstance(value, int)}
        return ConfiguredNetwork(task.candidates[name].kind, shape, recipe.fit.model_dump(mode="json"))
