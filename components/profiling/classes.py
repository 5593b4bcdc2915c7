"""A model that tells classes of images or texts apart, as something whose training is measured."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Self

import numpy.typing as npt
import pandas as pd

from components.classes.shards import Items
from components.common.config.classes import Images, Texts
from components.common.config.classes import Network as Candidate
from components.common.errors import UserError
from components.profiling.tuning import Network
from components.training.classes import FAMILIES, Family
from components.training.estimators import Fitted
from components.training.networks import Setting

STEPS = 10  # of the trace


def network(task: Images | Texts, name: str) -> Network:
    """Return a network among the candidates of a config, as it is tuned.

    Raises:
        UserError: when its recipe refuses a parameter, or nothing of it is trained.
    """
    family = FAMILIES[type(task)]
    if not family.is_network(task, name):
        raise UserError(f"task.candidates.{name}: its network is frozen, so there is no training to make faster")
    recipe = family.recipe(task, name)
    shape = {key: value for key, value in vars(recipe).items() if isinstance(value, int)}
    return Network(task.candidates[name].kind, shape, recipe.fit.model_dump(mode="json"))


@dataclass(frozen=True)
class Subject:
    """A candidate.

    Attributes:
        name: of the candidate.
        setting: task and device, those of the training.
        items: the training days.
        rows: the training rows.
    """

    batch: ClassVar = 256
    name: str
    setting: Setting
    items: Items
    rows: pd.DataFrame

    @classmethod
    def of(cls, task: Images | Texts, device: str, name: str, items: Items) -> Self:
        """Return a candidate to be fitted on all of some items."""
        return cls(name, Setting(task, device), items, items.rows)

    @property
    def is_network(self) -> bool:
        """Whether it is trained in steps."""
        return self._family.is_network(self.setting.task, self.name)

    @property
    def kind(self) -> str:
        """The recipe."""
        return self._candidate.kind

    @property
    def device(self) -> str:
        """Where it is trained."""
        return self.setting.device

    @cached_property
    def inputs(self) -> npt.NDArray[Any]:
        """What networks see of the training rows, (n, ...)."""
        return self.items.inputs(self.rows)

    def fit(self) -> Fitted:
        """Fit it, as the training does."""
        return self._family.fit(self.setting, self.name, self.items, self.rows)

    def brief(self) -> Callable[[], Fitted]:
        """Return the first steps of a network's fit; the whole fit of another candidate."""
        if not self.is_network:
            return self.fit
        parameters = {**self._candidate.parameters, "epochs": 1}
        candidate = self._candidate.model_copy(update={"parameters": parameters})
        task = self.setting.task.model_copy(update={"candidates": {self.name: candidate}})
        rows = self.rows.head(STEPS * self._family.recipe(task, self.name).fit.batch_size)
        return partial(self._family.fit, replace(self.setting, task=task), self.name, self.items, rows)

    @property
    def _candidate(self) -> Candidate:
        return self.setting.task.candidates[self.name]

    @property
    def _family(self) -> Family:
        return FAMILIES[type(self.setting.task)]
