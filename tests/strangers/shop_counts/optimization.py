"""The rows on which forms of a graph are measured."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from nightshift import splits
from nightshift.config import Config
from nightshift.contracts import package
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.tables import Table
from nightshift.stats.comparison import Floats
from nightshift.tabular.inputs import matrix
from nightshift.tabular.scaler import Matrix
from nightshift.tasks.tabular.optimization import reference
from shop_counts import poisson, training

__all__ = ["reference", "rows"]


@dataclass(frozen=True)
class Rows:
    metric: ClassVar = "Poisson deviance"
    many: ClassVar = 1024
    is_decidable: ClassVar = True
    inputs: Matrix
    counts: Floats
    limit: float

    def decided(self, scores: Floats) -> Any:
        return np.zeros(len(scores))  # nothing

    def quality(self, scores: Floats) -> float:
        return -poisson.metrics(self.counts, scores)["poisson_deviance"]

    def resampled(self, scores: Floats) -> Floats:
        return -poisson.resampled(self.counts, scores)


def rows(config: Config, features: Table, uri: str, model: ModelPackage, limit: float) -> tuple[Matrix, Rows]:
    unseen = training.labeled(features, splits.fold(config, model.lineage.validation.last).test)
    measured = Rows(matrix(model.inputs, unseen), unseen["label"].to_numpy(dtype=float), limit)
    return matrix(model.inputs, package.read_reference(uri)), measured
