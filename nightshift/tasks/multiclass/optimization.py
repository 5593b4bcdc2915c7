"""The rows of a table of classes on which forms of a graph are measured."""

from dataclasses import dataclass
from typing import ClassVar

from nightshift.config.multiclass import MulticlassConfig
from nightshift.contracts import package
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.tables import Table
from nightshift.data import splits
from nightshift.items import shards
from nightshift.models.tensors import Tensors, by_name
from nightshift.tabular.inputs import matrix
from nightshift.tasks.base import optimization as base
from nightshift.tasks.classification.optimization import ItemOptimizationRows
from nightshift.tasks.multiclass.groups import number_groups


@dataclass(frozen=True)
class MulticlassOptimizationRows(ItemOptimizationRows):
    """Rows of a table whose class is predicted."""

    batch_size: ClassVar = 1024


class OptimizationTask(base.OptimizationTask):
    """Accuracy on the validation rows."""

    def read_samples(
        self, config: MulticlassConfig, features: Table, uri: str, model: ModelPackage, limit: float
    ) -> tuple[Tensors, MulticlassOptimizationRows]:
        holdout = features.read(splits.fold(config, model.lineage.validation.last).test)
        labels, groups = shards.labels(holdout, config.task.classes), number_groups(holdout)
        inputs = by_name(matrix(model.inputs, holdout))
        measured = MulticlassOptimizationRows(inputs, limit, labels, groups)
        return by_name(matrix(model.inputs, package.read_reference(uri))), measured
