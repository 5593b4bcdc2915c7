"""Residual networks over images, from a few thousand weights to ResNet-50 and beyond.

He, Zhang, Ren & Sun, Deep Residual Learning for Image Recognition, 2016; with the stride in the 3 x 3 convolution, as
everybody has it since. Batches are normalized in each process by themselves.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import annotated_types
import torch
from pydantic import Field, StringConstraints
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from components.common.config.neural import Fit
from components.common.config.section import Positive
from components.common.errors import UserError
from components.neural.images import Augmentation, augmented

if TYPE_CHECKING:
    from torch.distributed.tensor.parallel import ParallelStyle

WIDER = 4  # a bottleneck's outputs over its 3 x 3 convolution's


class Parameters(Fit):
    """What `task.candidates.<name>.parameters` may hold for the kind `resnet`; ResNet-50 is in the docs."""

    epochs: Positive = 30
    batch_size: Positive = Field(64, description="images of a step, over all processes")
    learning_rate: Annotated[float, annotated_types.Gt(0)] = Field(
        0.003, description="of Adam, at most; falls to 0 after the last step"
    )
    threads: Positive = Field(2, description="on the CPU")
    stages: Annotated[str, StringConstraints(pattern=r"^[1-9]\d*(,[1-9]\d*)*$")] = Field(
        "1,1,1", description="residual blocks of each stage: each is twice as wide as the one before, at half its size"
    )
    width: Positive = Field(
        32, description="channels of the first stage, in a bottleneck those of its 3 x 3 convolution"
    )
    bottleneck: bool = Field(False, description="true: blocks of 1 x 1, 3 x 3 and 1 x 1; false: of two 3 x 3")
    stem: Literal["small", "large"] = Field(
        "small", description="small: 3 x 3, for images up to some 64 pixels; large: 7 x 7 and a pooling, a quarter left"
    )
    shift: Annotated[float, annotated_types.Interval(ge=0, lt=0.5)] = Field(
        0.1, description="of the side, by how much a training image is moved at most"
    )
    flip: bool = Field(False, description="true: half of the training images are mirrored")
    label_smoothing: Annotated[float, annotated_types.Interval(ge=0, lt=1)] = 0.0
    channels_last: bool = Field(True, description="in memory; false: a channel's pixels lie together")

    @property
    def layout(self) -> torch.memory_format:
        """How images and weights lie in memory."""
        return torch.channels_last if self.channels_last else torch.contiguous_format


class Stem(nn.Module):
    """Pixels to the first channels: uint8 (n, height, width, channels) -> (n, width, ...)."""

    def __init__(self, channels: int, width: int, is_large: bool, layout: torch.memory_format) -> None:
        super().__init__()
        self._layout = layout
        size, stride = (7, 2) if is_large else (3, 1)
        self.path = nn.Sequential(*_convolved(channels, width, size, stride), nn.ReLU())
        if is_large:
            self.path.append(nn.MaxPool2d(3, 2, 1))

    def forward(self, pixels: Tensor) -> Tensor:
        """Center pixels and convolve them; their last axis goes first, in memory where the layout says so."""
        images = pixels.permute(0, 3, 1, 2).contiguous(memory_format=self._layout)
        found: Tensor = self.path(images.float() / 127.5 - 1)
        return found


class Pointwise(nn.Conv2d):
    """A 1 x 1 convolution that leaves out pixels before it, not within.

    With a stride, fewer than 8 to 16 channels and channels_last, oneDNN's gradient writes past its memory
    (https://github.com/uxlfoundation/oneDNN/issues/6035).
    """

    def forward(self, images: Tensor) -> Tensor:
        """Return what a 1 x 1 convolution with this stride does."""
        down, right = self.stride
        return nn.functional.conv2d(images[:, :, ::down, ::right], self.weight)


class Residual(nn.Module):
    """What a path adds to its input."""

    def __init__(self, inputs: int, width: int, stride: int, bottleneck: bool) -> None:
        super().__init__()
        outputs = width * WIDER if bottleneck else width
        self.path = nn.Sequential(*_layers(inputs, width, outputs, stride, bottleneck))
        is_same = stride == 1 and inputs == outputs
        self.shortcut = nn.Sequential() if is_same else nn.Sequential(*_convolved(inputs, outputs, 1, stride))

    def forward(self, images: Tensor) -> Tensor:
        """Return the rectified sum, (n, outputs, ...)."""
        return nn.functional.relu(self.path(images) + self.shortcut(images))


class Head(nn.Module):
    """The mean over places, and a score for each class: (n, inputs, ...) -> logits (n, classes)."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits."""
        found: Tensor = self.linear(images.mean((2, 3)))
        return found


@dataclass(frozen=True)
class ResNet:
    """The recipe.

    Attributes:
        side: pixels of an image's side.
        channels: of an image.
        classes: how many there are.
        fit: depth, width and how it is fitted.
    """

    side: int
    channels: int
    classes: int
    fit: Parameters

    def model(self) -> nn.Sequential:
        """Return an untrained network, uint8 (n, side, side, channels) -> logits (n, classes)."""
        fit, width = self.fit, self.fit.width
        blocks: list[nn.Module] = [Stem(self.channels, width, fit.stem == "large", fit.layout)]
        inputs = width
        for stage, count in enumerate(map(int, fit.stages.split(","))):
            for number in range(count):
                stride = 2 if stage and not number else 1
                blocks.append(Residual(inputs, width << stage, stride, fit.bottleneck))
                inputs = (width << stage) * (WIDER if fit.bottleneck else 1)
        made = nn.Sequential(*blocks, Head(inputs, self.classes))
        # as the images are: weights and gradients of another layout would be copied in every step
        return made.to(memory_format=fit.layout)  # type: ignore[call-overload, no-any-return]

    def augmented(self, images: Tensor, noise: Tensor) -> Tensor:
        """Move and mirror a batch of training images, uint8 (b, side, side, channels), by noise, (b, 3)."""
        return augmented(Augmentation(round(self.fit.shift * self.side), self.fit.flip), images, noise)

    def loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return the mean cross-entropy of logits (n, classes) and the numbers of classes, int64 (n,)."""
        return nn.functional.cross_entropy(outputs, labels, label_smoothing=self.fit.label_smoothing)

    def tensor_plan(self, part: nn.Sequential) -> "dict[str, ParallelStyle]":  # noqa: ARG002  # no part can be
        """Refuse: convolutions are not shared.

        Raises:
            UserError: always.
        """
        raise UserError("task.trainer.tensor: a resnet's layers are not shared; write tensor: 1")

    def flops(self) -> int:
        """Return what PyTorch counts for one image, forward and backward."""
        with torch.device("meta"), FlopCounterMode(display=False) as counter:
            # two, since the statistics of a batch need more than one value
            pixels = torch.zeros((2, self.side, self.side, self.channels), dtype=torch.uint8)
            self.model()(pixels).sum().backward()
        return int(counter.get_total_flops()) // 2


def _layers(inputs: int, width: int, outputs: int, stride: int, bottleneck: bool) -> list[nn.Module]:
    if not bottleneck:
        return [*_convolved(inputs, width, 3, stride), nn.ReLU(), *_convolved(width, outputs, 3, 1)]
    before, middle = _convolved(inputs, width, 1, 1), _convolved(width, width, 3, stride)
    return [*before, nn.ReLU(), *middle, nn.ReLU(), *_convolved(width, outputs, 1, 1)]


def _convolved(inputs: int, outputs: int, size: int, stride: int) -> list[nn.Module]:
    kind = Pointwise if size == 1 else nn.Conv2d
    convolution = kind(inputs, outputs, size, stride, size // 2, bias=False)
    nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
    return [convolution, nn.BatchNorm2d(outputs)]
