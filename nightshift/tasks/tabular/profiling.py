"""A candidate of a table, as something whose training is measured."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np

from nightshift.config.tabular import TabularConfig
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.profile import PhaseName
from nightshift.models import recipes
from nightshift.models.neural.configured import ConfiguredNetwork
from nightshift.models.recipes import mlp
from nightshift.models.tensors import Tensors, by_name
from nightshift.tabular import declarations, inputs
from nightshift.tabular.scaler import Matrix
from nightshift.tasks.base import profiling as base
from nightshift.tasks.base.training import TrainingSetup
from nightshift.tasks.fitting import FitSpec, Fitted
from nightshift.tasks.tabular import estimators
from nightshift.tasks.tabular.estimators import Labels

PROFILED_STEPS = 60  # of the MLP: the trace of a whole fit would have millions of events
BATCH = 4096


@dataclass(frozen=True)
class RowFit(base.ProfiledFit):
    """A candidate of a table.

    Attributes:
        spec: its parameters and circumstances, those of the training.
        matrix: inputs of the training rows, float32 (n, d).
        labels: 0 or 1, int8 (n,).
    """

    batch_size: ClassVar = BATCH
    kind: str
    spec: FitSpec
    matrix: Matrix
    labels: Labels

    @property
    def inputs(self) -> Tensors:
        return by_name(self.matrix)

    @property
    def device(self) -> str:
        return self.spec.device

    @property
    def is_network(self) -> bool:
        return recipes.find(self.kind) is not None

    def fit(self) -> Fitted:
        return estimators.fit(self.kind, self.spec, self.matrix, self.labels)

    def brief(self) -> Callable[[], Fitted]:
        if self.is_network:
            batch = mlp.parameters(self.spec.field, self.spec.parameters).batch_size
            rows, spec = batch * PROFILED_STEPS, replace(self.spec, parameters={**self.spec.parameters, "epochs": 1})
            return replace(self, spec=spec, matrix=self.matrix[:rows], labels=self.labels[:rows]).fit
        # cProfile sees one thread only
        return self.fit if self.device == "cuda" else replace(self, spec=replace(self.spec, threads=1)).fit


class ProfilingTask(base.ProfilingTask):
    """The fit of a candidate with the parameters of its package."""

    def selected_fit(
        self,
        setup: TrainingSetup[TabularConfig],
        model: ModelPackage,
        phase: Callable[[PhaseName], AbstractContextManager[None]],
    ) -> RowFit:
        with phase(PhaseName.READ):
            frame = setup.features.read(setup.plan.test.train, ["label", *model.tabular.columns])
        with phase(PhaseName.MATRIX):
            matrix, labels = inputs.matrix(model.tabular, frame), frame["label"].to_numpy(dtype=np.int8)
        name = model.selected
        return RowFit(name, model.candidates[name].kind, _spec(setup, model, name, matrix, labels), matrix, labels)

    def network(self, config: TabularConfig, name: str, inputs: int | None) -> ConfiguredNetwork:
        numeric = declarations.numeric_inputs(config.feature_spec, config.columns.numeric)
        candidate = config.task.candidates[name]
        parameters = mlp.parameters(f"task.candidates.{name}.parameters", candidate.parameters).model_dump(mode="json")
        return ConfiguredNetwork(
            candidate.kind, {"inputs": inputs or len(numeric) + len(config.columns.categorical)}, parameters
        )


def _spec(
    setup: TrainingSetup[TabularConfig], model: ModelPackage, name: str, matrix: Matrix, labels: Labels
) -> FitSpec:
    """Return how a candidate of a package was fitted, and its members."""
    task, candidate = setup.config.task, model.candidates[name]
    members = {
        member: partial(
            estimators.fit, model.candidates[member].kind, _spec(setup, model, member, matrix, labels), matrix, labels
        )
        for member in candidate.members
        if member in model.candidates
    }
    return FitSpec(
        f"task.candidates.{name}.parameters",
        candidate.parameters,
        task.seed,
        task.threads,
        setup.device,
        nullable=bool(model.tabular.nullable),
        columns=inputs.positions(model.tabular, candidate.inputs) if candidate.inputs else None,
        choices=candidate.choices,
        members=members,
    )
