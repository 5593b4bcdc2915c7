"""What can be said of images without a model: by which drift is seen before any label arrives."""

import numpy as np
import numpy.typing as npt

from components.classes.images import Pixels

INPUTS = ("brightness", "contrast", "sharpness")


def of(pixels: Pixels) -> dict[str, npt.NDArray[np.float32]]:
    """Return `INPUTS` of images: mean, standard deviation and mean step between neighbors, float32 (n,) each.

    Args:
        pixels: (n, side, side, channels).
    """
    values = pixels.astype(np.float32)
    steps = (np.abs(np.diff(values, axis=axis)).mean((1, 2, 3)) for axis in (1, 2))
    found = (values.mean((1, 2, 3)), values.std((1, 2, 3)), sum(steps))
    return dict(zip(INPUTS, found, strict=True))
