"""A candidate of a table, as something whose training is measured."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from nightshift.config.tabular import CandidateKind, TabularConfig
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.profile import PhaseName
from nightshift.models.neural.configured import ConfiguredNetwork
from nightshift.models.recipes import mlp
from nightshift.models.tensors import Tensors, by_name
from nightshift.tabular import inputs, windows
from nightshift.tabular.scaler import Matrix
from nightshift.tasks.fitting import FitSpec, Fitted
from nightshift.tasks.protocol import TrainingSetup
from nightshift.tasks.tabular import estimators
from nightshift.tasks.tabular.estimators import Labels

PROFILED_STEPS = 60  # of the MLP: the trace of a whole fit would have millions of events
BATCH = 4096


@dataclass(frozen=True)
class RowFit:
    """A candidate of a table.

    Attributes:
        name: of the candidate.
        kind: of the candidate.
        spec: its parameters and circumstances, those of the training.
        matrix: inputs of the training rows, float32 (n, d).
        labels: 0 or 1, int8 (n,).
    """

    batch: ClassVar = BATCH
    name: str
    kind: CandidateKind
    spec: FitSpec
    matrix: Matrix
    labels: Labels

    @property
    def inputs(self) -> Tensors:
        """What its graph takes of the training rows."""
        return by_name(self.matrix)

    @property
    def device(self) -> str:
        """Where it is trained."""
        return self.spec.device

    @property
    def is_network(self) -> bool:
        """Whether PyTorch trains it."""
        return self.kind == CandidateKind.MLP

    def fit(self) -> Fitted:
        """Fit it, as the training does."""
        return estimators.fit(self.kind, self.spec, self.matrix, self.labels)

    def brief(self) -> Callable[[], Fitted]:
        """Return the first steps of an MLP's fit; the whole fit of another candidate, on one thread on the CPU."""
        if self.is_network:
            batch = mlp.parameters(self.spec.field, self.spec.parameters).batch_size
            rows, spec = batch * PROFILED_STEPS, replace(self.spec, parameters={**self.spec.parameters, "epochs": 1})
            return replace(self, spec=spec, matrix=self.matrix[:rows], labels=self.labels[:rows]).fit
        # cProfile sees one thread only
        return self.fit if self.device == "cuda" else replace(self, spec=replace(self.spec, threads=1)).fit


def selected_fit(
    setup: TrainingSetup[TabularConfig], model: ModelPackage, phase: Callable[[PhaseName], AbstractContextManager[None]]
) -> RowFit:
    """Return the fit of a model's selected candidate, with the parameters of its package, on the training rows."""
    with phase(PhaseName.READ):
        frame = setup.features.read(setup.plan.test.train, ["label", *model.tabular.columns])
    with phase(PhaseName.MATRIX):
        matrix, labels = inputs.matrix(model.tabular, frame), frame["label"].to_numpy(dtype=np.int8)
    name, task = model.selected, setup.config.task
    candidate = model.candidates[name]
    field = f"task.candidates.{name}.parameters"
    nullable = bool(model.tabular.nullable)
    spec = FitSpec(field, candidate.parameters, task.seed, task.threads, setup.device, nullable=nullable)
    return RowFit(name, CandidateKind(candidate.kind), spec, matrix, labels)


def network(config: TabularConfig, name: str, inputs: int | None) -> ConfiguredNetwork:
    """Return a network among the candidates of a config, with so many inputs, by default those of the config."""
    numeric = windows.numeric_inputs(windows.configured_windows(config), config.columns.numeric)
    candidate = config.task.candidates[name]
    parameters = mlp.parameters(f"task.candidates.{name}.parameters", candidate.parameters).model_dump(mode="json")
    return ConfiguredNetwork(
        candidate.kind, {"inputs": inputs or len(numeric) + len(config.columns.categorical)}, parameters
    )
