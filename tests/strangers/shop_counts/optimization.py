"""The rows on which forms of a graph are measured."""

from types import SimpleNamespace

import numpy as np

from nightshift.contracts import package
from nightshift.data import splits
from nightshift.models.tensors import by_name
from nightshift.tabular.inputs import matrix
from nightshift.tasks.tabular.optimization import engine_variants, reference
from shop_counts import poisson

__all__ = ["engine_variants", "reference", "rows"]


def rows(config, features, uri, model, limit):
    unseen = features.read(splits.fold(config, model.lineage.validation.last).test)
    counts = unseen["label"].to_numpy(dtype=float)
    measured = {
        "decide": lambda scores: np.zeros(len(scores)),  # nothing
        "quality": lambda scores: -poisson.deviance(counts, scores),
        "resample": lambda scores: -poisson.resampled(counts, scores),
    }
    rows = SimpleNamespace(metric="Poisson deviance", many=1024, limit=limit, is_decidable=True, **measured)
    rows.inputs = by_name(matrix(model.inputs, unseen))
    return by_name(matrix(model.inputs, package.read_reference(uri))), rows
