"""What can be said of images and texts without a model: by which drift is seen before any label arrives."""

import numpy as np
import numpy.typing as npt

from components.classes.images import Pixels
from components.classes.shards import Array
from components.classes.tokens import Tokens
from components.common.contracts.package import Images, Texts

Values = npt.NDArray[np.float32]


def names(seen: Images | Texts) -> list[str]:
    """Return what can be said of each."""
    return ["brightness", "contrast", "sharpness"] if isinstance(seen, Images) else ["tokens", "variety"]


def of(seen: Images | Texts, inputs: Array) -> dict[str, Values]:
    """Return the `names` of images or texts, float32 (n,) each.

    Args:
        seen: how they became the model's input.
        inputs: what networks see of them, (n, ...).
    """
    values = _of_images(inputs) if isinstance(seen, Images) else _of_texts(inputs, seen.pad)
    return dict(zip(names(seen), values, strict=True))


def _of_images(pixels: Pixels) -> list[Values]:
    """Return the mean, the standard deviation and the mean step between neighbors."""
    values = pixels.astype(np.float32)
    steps = [np.abs(np.diff(values, axis=axis)).mean((1, 2, 3)) for axis in (1, 2)]
    return [values.mean((1, 2, 3)), values.std((1, 2, 3)), steps[0] + steps[1]]


def _of_texts(tokens: Tokens, pad: int) -> list[Values]:
    """Return how many tokens there are, and the share of them that are different ones."""
    ordered = np.sort(tokens, axis=1)
    is_first = np.diff(ordered, axis=1, prepend=-1) != 0
    count, different = (tokens != pad).sum(1), (is_first & (ordered != pad)).sum(1)
    return [count.astype(np.float32), (different / np.maximum(count, 1)).astype(np.float32)]
