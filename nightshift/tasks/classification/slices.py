"""How good a model of classes is on parts of the test rows: dark images and bright ones, short texts and long ones."""

from typing import Any

import numpy as np
import numpy.typing as npt

from nightshift.contracts.evaluation import OfSlice
from nightshift.contracts.preprocessing import ClassPreprocessing
from nightshift.items.scorer import AT_ONCE
from nightshift.items.shards import Array
from nightshift.tasks.classification import descriptors
from nightshift.tasks.items.slices import split_thirds


def slices(preprocessing: ClassPreprocessing, inputs: Array, right: npt.NDArray[np.bool_]) -> list[OfSlice]:
    """Measure thirds of the test rows, by each of `descriptors.names`; rows that are all alike are one part.

    Args:
        preprocessing: how rows became the model's input.
        inputs: what networks see of them, (n, ...).
        right: whether the class is right, (n,).
    """
    return [
        OfSlice(name=name, rows=int(mask.sum()), accuracy=float(right[mask].mean()))
        for statistic, values in _descriptions(preprocessing, inputs).items()
        for name, mask in split_thirds(statistic, values)
        if mask.any()
    ]


def _descriptions(preprocessing: ClassPreprocessing, inputs: Array) -> dict[str, npt.NDArray[Any]]:
    firsts = range(0, len(inputs), AT_ONCE)
    parts = [descriptors.describe(preprocessing, inputs[first : first + AT_ONCE]) for first in firsts]
    return {name: np.concatenate([part[name] for part in parts]) for name in descriptors.names(preprocessing)}
