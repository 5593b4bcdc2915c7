"""The pairs on which forms of a graph are measured: how often they find each other, and what is decided of findings."""

from collections.abc import Iterator
from dataclasses import fields
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from nightshift.config.classes import ClassConfig
from nightshift.contracts.package import ModelPackage
from nightshift.contracts.tables import Table
from nightshift.items.metrics import Scores
from nightshift.models.graph import Graph
from nightshift.models.tensors import Tensors
from nightshift.stats import bootstrap
from nightshift.tasks.classification import optimization as classification
from nightshift.tasks.classification.optimization import ItemOptimizationRows
from nightshift_image_text import neighbors
from nightshift_image_text.retrieval import CUTOFFS, Embeddings, Pairs, find_hits
from nightshift_image_text.task.measuring import answer
from nightshift_image_text.task.views import TOKENS

CUTOFF = 5


class PairOptimizationRows(ItemOptimizationRows):
    """Pairs; what is judged of a form are scores of findings and both embeddings, side by side."""

    metric: ClassVar = f"recall_at_{CUTOFF}"

    def compute(self, graph: Graph, inputs: Tensors) -> Scores:
        return answer(graph, inputs).stacked

    def decide(self, scores: Scores) -> npt.NDArray[Any]:
        return super().decide(scores[:, : self._findings])

    def quality(self, scores: Scores) -> float:
        return float(self._find_hits(scores).mean())

    def resample(self, scores: Scores) -> Scores:
        hits = self._find_hits(scores)
        drawn = (counts[self.groups] for counts in bootstrap.draw_counts(int(self.groups.max()) + 1))
        return np.array([weights @ hits / weights.sum() for weights in drawn])

    def _find_hits(self, scores: Scores) -> Scores:
        images, reports = np.split(scores[:, self._findings :], 2, axis=1)
        hits: Scores = find_hits(Embeddings(images, reports), self._pairs).both[:, CUTOFFS.index(CUTOFF)]
        return hits

    @property
    def _findings(self) -> int:
        return int(self.labels.shape[1])

    @cached_property
    def _pairs(self) -> Pairs:
        _, reports = np.unique(self.inputs[TOKENS], axis=0, return_inverse=True)
        # the images of a study have the same report, so that they need no study
        return Pairs(np.arange(len(reports)), reports.ravel(), self.groups)


class OptimizationTask(classification.OptimizationTask):
    """Recall on the validation pairs."""

    def read_samples(
        self, config: ClassConfig, features: Table, uri: str, model: ModelPackage, limit: float
    ) -> tuple[Tensors, PairOptimizationRows]:
        sample, rows = super().read_samples(config, features, uri, model, limit)
        return sample, PairOptimizationRows(**{field.name: getattr(rows, field.name) for field in fields(rows)})

    def answer_files(
        self, features: Table, uri: str, model: ModelPackage, form: bytes | None
    ) -> Iterator[tuple[str, bytes]]:
        return neighbors.make_files(features, uri, model, form)
