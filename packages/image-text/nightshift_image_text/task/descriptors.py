"""What can be said of images and their reports without a model."""

import numpy as np
import numpy.typing as npt

from nightshift.items.shards import Array
from nightshift.tasks.images import descriptors as images
from nightshift.tasks.texts import descriptors as texts
from nightshift_image_text.preprocessing import ImageTextPreprocessing

NAMES: tuple[str, ...] = (*images.NAMES, *texts.NAMES)


def describe(preprocessing: ImageTextPreprocessing, inputs: Array) -> list[npt.NDArray[np.float32]]:
    """Return a figure of each pair for each of the names, (n,) each.

    Args:
        preprocessing: names the token that fills reports up.
        inputs: structured, with `pixels` and `tokens`, (n,).
    """
    return [*images.measure(inputs["pixels"]), *texts.measure(inputs["tokens"], preprocessing.pad)]
