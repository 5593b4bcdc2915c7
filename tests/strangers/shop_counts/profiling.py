"""The training as something that is measured."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from nightshift.config import Config
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.profile import PhaseName
from nightshift.errors import UserError
from nightshift.tasks.protocol import TrainingSetup
from shop_counts import training


def selected_fit(setup: TrainingSetup, model: ModelPackage, phase: Callable[[PhaseName], Any]) -> SimpleNamespace:
    with phase(PhaseName.READ):
        sample = training.rows(setup).sample(setup.plan.test)
    with phase(PhaseName.MATRIX):
        inputs, name = sample.matrix, model.selected
    found = SimpleNamespace(name=name, kind=model.candidates[name].kind, device="cpu", is_network=False, inputs=inputs)
    found.batch, found.fit = 1024, lambda: sample.fit(name)
    found.brief = lambda: found.fit
    return found


def network(_: Config, name: str, __: int | None) -> Any:
    raise UserError(f"task.candidates.{name} is no network")
