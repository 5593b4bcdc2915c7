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
from nightshift.tasks.classification import kinds
from nightshift.tasks.classification.kinds import Candidates
from nightshift.tasks.classification.networks import Setting
from nightshift.tasks.fitting import Fitted
from nightshift.tasks.protocol import TrainingSetup

STEPS = 10  # of the trace


@dataclass(frozen=True)
class ItemFit:
    """A candidate.

    Attributes:
        name: of the candidate.
        setting: task and device, those of the training.
        items: the training days.
        rows: the training rows.
    """

    batch: ClassVar = 256
    name: str
    setting: Setting[ClassTaskConfig]
    items: ItemTable
    rows: pd.DataFrame

    @property
    def is_network(self) -> bool:
        """Whether it is trained in steps."""
        return self._candidates.is_network(self.setting.task, self.name)

    @property
    def kind(self) -> str:
        """The recipe."""
        return self._candidate.kind

    @property
    def device(self) -> str:
        """Where it is trained."""
        return self.setting.device

    @cached_property
    def inputs(self) -> Tensors:
        """What networks see of the training rows."""
        return by_name(self.items.inputs(self.rows))

    def fit(self) -> Fitted:
        """Fit it, as the training does."""
        return self._candidates.fit(self.setting, self.name, self.items, self.rows)

    def brief(self) -> Callable[[], Fitted]:
        """Return the first steps of a network's fit; the whole fit of another candidate."""
        if not self.is_network:
            return self.fit
        parameters = {**self._candidate.parameters, "epochs": 1}
        candidate = self._candidate.model_copy(update={"parameters": parameters})
        task = self.setting.task.model_copy(update={"candidates": {self.name: candidate}})
        rows = self.rows.head(STEPS * self._candidates.recipe(task, self.name).fit.batch_size)
        return partial(self._candidates.fit, replace(self.setting, task=task), self.name, self.items, rows)

    @property
    def _candidate(self) -> CandidateConfig:
        return self.setting.task.candidates[self.name]

    @property
    def _candidates(self) -> Candidates:
        return kinds.candidates(self.setting.task.kind)


def selected_fit(
    setup: TrainingSetup[ClassConfig], model: ModelPackage, phase: Callable[[PhaseName], AbstractContextManager[None]]
) -> ItemFit:
    """Return the fit of a model's selected candidate, with the parameters of the config, on the training rows."""
    with phase(PhaseName.READ):
        items = ItemTable.read(setup.features, setup.plan.test.train)
    fit = ItemFit(model.selected, Setting(setup.config.task, setup.device), items, items.rows)
    with phase(PhaseName.MATRIX):
        assert row_count(fit.inputs) == len(items.rows)
    return fit


def network(config: ClassConfig, name: str, _: int | None) -> ConfiguredNetwork:
    """Return a network among the candidates of a config.

    Raises:
        UserError: when its recipe refuses a parameter, or nothing of it is trained.
    """
    task = config.task
    candidates = kinds.candidates(task.kind)
    if not candidates.is_network(task, name):
        raise UserError(f"task.candidates.{name}: its network is frozen, so there is no training to make faster")
    recipe = candidates.recipe(task, name)
    shape = {key: value for key, value in vars(recipe).items() if isinstance(value, int)}
    return ConfiguredNetwork(task.candidates[name].kind, shape, recipe.fit.model_dump(mode="json"))
