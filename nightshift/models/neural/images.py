"""Images of a training: moved, mirrored and mixed on the device."""

from dataclasses import dataclass
from functools import cache

import numpy as np
import torch
from scipy.special import betaincinv
from torch import Tensor
from torch.nn.functional import one_hot

from nightshift.models.neural.data import Samples

QUANTILES = 4096
PAIR = 2  # images that are mixed with each other


@dataclass(frozen=True)
class Augmentation:
    """What is done to the images of a training.

    Attributes:
        shift: pixels, by which an image is moved at most; what leaves it on one side, its edge fills on the other.
        flip: whether half of them are mirrored.
    """

    shift: int = 0
    flip: bool = False


def augment(how: Augmentation, images: Tensor, noise: Tensor) -> Tensor:
    """Move and mirror images.

    Args:
        how: by how much.
        images: (b, height, width, channels).
        noise: between 0 and 1, (b, 3 or more): down, right, mirrored.
    """
    if not how.shift and not how.flip:
        return images
    height, width = images.shape[1:3]
    moved = (noise[:, :2] * (2 * how.shift + 1)).long() - how.shift
    rows, columns = (
        (torch.arange(size, device=images.device) - moved[:, axis, None]).clamp(0, size - 1)
        for axis, size in enumerate((height, width))
    )
    if how.flip:
        columns = torch.where(noise[:, 2:3] < 0.5, width - 1 - columns, columns)
    image_index = torch.arange(len(images), device=images.device)[:, None, None]
    return images[image_index, rows[:, :, None], columns[:, None, :]]


def mix(samples: Samples, shares: Tensor, classes: int) -> Samples:
    """Mix each image of a batch with its neighbor, `PAIR` by `PAIR`, and the labels alike; an odd one stays as it is.

    Zhang, Cisse, Dauphin & Lopez-Paz, mixup: Beyond Empirical Risk Minimization, 2018; with a share for each image.

    Args:
        samples: images, uint8 (b, height, width, channels), and the numbers of their classes, int64 (b,), or which
            classes each has, float32 (b, classes).
        shares: what an image keeps of itself, (b,), see `beta`.
        classes: how many there are.

    Returns:
        images, uint8, and how much of each class is in them, float32 (b, classes).
    """
    images, known = samples[0].float(), samples[1]
    labels = known if known.dim() == 2 else one_hot(known, classes).float()
    neighbors = (torch.arange(len(images), device=images.device) ^ 1).clamp(max=len(images) - 1)
    blended = torch.lerp(images[neighbors], images, shares[:, None, None, None]).round()
    return blended.to(torch.uint8), torch.lerp(labels[neighbors], labels, shares[:, None])


def beta(noise: Tensor, alpha: float) -> Tensor:
    """Return numbers of the distribution Beta(alpha, alpha) for numbers between 0 and 1, by its quantiles."""
    return _quantiles(alpha, noise.device)[(noise * QUANTILES).long()]


@cache
def _quantiles(alpha: float, device: torch.device) -> Tensor:
    quantiles = betaincinv(alpha, alpha, (np.arange(QUANTILES) + 0.5) / QUANTILES)
    return torch.from_numpy(quantiles.astype(np.float32)).to(device)
