"""What can be said of images without a model."""

import numpy as np
import numpy.typing as npt

from nightshift.contracts.preprocessing import ImagePreprocessing
from nightshift.items.images import Pixels

NAMES: tuple[str, ...] = ("brightness", "contrast", "sharpness")


def describe(_: ImagePreprocessing, pixels: Pixels) -> list[npt.NDArray[np.float32]]:
    """Return the figures of each image, (n,) each; see `measure`."""
    return measure(pixels)


def measure(pixels: Pixels) -> list[npt.NDArray[np.float32]]:
    """Return the mean, the standard deviation and the mean step between neighbors of each image, (n,) each.

    Args:
        pixels: uint8 (n, side, side, channels).
    """
    values = pixels.astype(np.float32)
    steps = [np.abs(np.diff(values, axis=axis)).mean((1, 2, 3)) for axis in (1, 2)]
    return [values.mean((1, 2, 3)), values.std((1, 2, 3)), steps[0] + steps[1]]
