"""The training as something that is measured."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from nightshift.config import Config
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.profile import PhaseName
from nightshift.errors import UserError
from nightshift.tabular.scaler import Matrix
from nightshift.tasks.fitting import Fitted
from nightshift.tasks.protocol import TrainingSetup
from shop_counts import training


@dataclass(frozen=True)
class CountFit:
    batch: ClassVar = 1024
    is_network: ClassVar = False
    device: ClassVar = "cpu"
    name: str
    kind: str
    inputs: Matrix
    fit: Callable[[], Fitted]

    def brief(self) -> Callable[[], Fitted]:
        return self.fit


def selected_fit(setup: TrainingSetup, model: ModelPackage, phase: Callable[[PhaseName], Any]) -> CountFit:
    with phase(PhaseName.READ):
        sample = training.rows(setup).sample(setup.plan.test)
    with phase(PhaseName.MATRIX):
        matrix = sample.matrix
    name = model.selected
    return CountFit(name, model.candidates[name].kind, matrix, lambda: sample.fit(name))


def network(_: Config, name: str, __: int | None) -> Any:
    raise UserError(f"task.candidates.{name} is no network")
