"""Pairs of a training: images are moved, and those of some batches are seen at a smaller side."""

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from nightshift.models.neural.data import AugmentedDataset, Gather, Samples, Transform
from nightshift.models.neural.epochs import Epoch
from nightshift_image_text.recipes.towers import PIXELS


class PairDataset(AugmentedDataset):
    """Pairs that are gathered a batch at a time; whole batches of them, which are drawn, at a smaller side.

    Args:
        gather: gives inputs by name on the device.
        labels: (n, ...), on the device.
        size: pairs of a batch.
        change: what is done to a batch.
        small: the smaller side in pixels, and the share of batches that have it.
    """

    def __init__(self, gather: Gather, labels: Tensor, size: int, change: Transform, small: tuple[int, float]) -> None:
        super().__init__(gather, labels, size, change)
        self._side, self._share = small

    def _batches(self, epoch: Epoch) -> Iterator[Samples]:
        drawn = torch.rand(len(self), generator=self._generator, device=epoch.order.device)
        is_small = (drawn < self._share).tolist()[epoch.skip :]
        for small, (inputs, labels) in zip(is_small, super()._batches(epoch), strict=True):
            yield inputs | {PIXELS: shrink(inputs[PIXELS], self._side)} if small else inputs, labels


def shrink(pixels: Tensor, side: int) -> Tensor:
    """Return images at a smaller side, each pixel the mean of its area; uint8 (n, side, side, channels)."""
    images = nn.functional.interpolate(pixels.permute(0, 3, 1, 2).float(), (side, side), mode="area")
    return images.round().to(torch.uint8).permute(0, 2, 3, 1).contiguous()
