"""What can be said of images and texts without a model: by which drift is seen before any label arrives."""

import numpy as np
import numpy.typing as npt

from nightshift.contracts.preprocessing import ClassPreprocessing
from nightshift.items.shards import Array
from nightshift.tasks.classification import kinds


def names(preprocessing: ClassPreprocessing) -> list[str]:
    """Return what can be said of each row."""
    return list(kinds.descriptors(preprocessing.kind).NAMES)


def describe(preprocessing: ClassPreprocessing, inputs: Array) -> dict[str, npt.NDArray[np.float32]]:
    """Return the `names` of what a graph takes, (n, ...); float32 (n,) each."""
    return dict(
        zip(
            names(preprocessing),
            kinds.descriptors(preprocessing.kind).describe(preprocessing, inputs),
            strict=True,
        )
    )
