"""The rows of a table of numbers on which forms of a graph are measured."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from nightshift.config.regression import RegressionConfig
from nightshift.contracts import package
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.tables import Table
from nightshift.data import splits
from nightshift.models.tensors import Tensors, by_name
from nightshift.stats.comparison import Floats
from nightshift.tabular.inputs import matrix
from nightshift.tasks.base import optimization as base
from nightshift.tasks.regression.errors import Groups, average, group

Scores = npt.NDArray[np.float32]


@dataclass(frozen=True)
class NumberOptimizationRows(base.OptimizationRows):
    """Rows with labels that are numbers.

    Attributes:
        labels: float64 (n,).
        groups: what is drawn for the interval, (n,).
    """

    metric: ClassVar = "error, in standard deviations of the labels, less than 0"
    batch_size: ClassVar = 1024
    labels: Floats
    groups: Groups

    def quality(self, scores: Scores) -> float:
        return float(self._gains(scores).mean())

    def resample(self, scores: Scores) -> Floats:
        return average(self._gains(scores), self.groups)

    def _gains(self, scores: Scores) -> Floats:
        return -np.abs(scores - self.labels) / (float(self.labels.std()) or 1.0)


class OptimizationTask(base.OptimizationTask):
    """The mean absolute error on the validation rows."""

    def read_samples(
        self, config: RegressionConfig, features: Table, uri: str, model: ModelPackage, limit: float
    ) -> tuple[Tensors, NumberOptimizationRows]:
        holdout = features.read(splits.fold(config, model.lineage.validation.last).test)
        labels = holdout["label"].to_numpy(dtype=np.float64)
        inputs = by_name(matrix(model.inputs, holdout))
        measured = NumberOptimizationRows(inputs, limit, labels, group(holdout, config))
        return by_name(matrix(model.inputs, package.read_reference(uri))), measured
