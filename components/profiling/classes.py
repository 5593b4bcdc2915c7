"""A network that tells classes of images apart, as something whose training is measured."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Self

import numpy.typing as npt
import pandas as pd

from components.classes.shards import Items
from components.common.config.classes import ImageNetwork, Images
from components.training import images
from components.training.estimators import Fitted

STEPS = 10  # of the trace


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
    is_network: ClassVar = True
    name: str
    setting: images.Setting
    items: Items
    rows: pd.DataFrame

    @classmethod
    def of(cls, task: Images, device: str, name: str, items: Items) -> Self:
        """Return a candidate to be fitted on all of some items."""
        return cls(name, images.Setting(task, device), items, items.rows)

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
        """Pixels of the training rows, uint8 (n, side, side, channels)."""
        return self.items.inputs(self.rows)

    def fit(self) -> Fitted:
        """Fit it, as the training does."""
        return images.fit(self.setting, self.name, self.items, self.rows)

    def brief(self) -> Callable[[], Fitted]:
        """Return the first steps of its fit."""
        parameters = {**self._candidate.parameters, "epochs": 1}
        candidate = self._candidate.model_copy(update={"parameters": parameters})
        task = self.setting.task.model_copy(update={"candidates": {self.name: candidate}})
        rows = self.rows.head(STEPS * images.recipe(task, self.name).fit.batch_size)
        return partial(images.fit, replace(self.setting, task=task), self.name, self.items, rows)

    @property
    def _candidate(self) -> ImageNetwork:
        return self.setting.task.candidates[self.name]
