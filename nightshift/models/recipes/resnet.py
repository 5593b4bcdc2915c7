"""Residual networks over images, from a few thousand weights to ResNet-50 and beyond.

He, Zhang, Ren & Sun, Deep Residual Learning for Image Recognition, 2016; with the stride in the 3 x 3 convolution, as
everybody has it since.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal

import annotated_types
import torch
import torch.distributed as dist
from pydantic import Field, StringConstraints
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from nightshift.config.neural import LearningRate
from nightshift.config.section import BatchSize, Epochs, Threads, Width, check_parameters
from nightshift.models.neural.data import AugmentedDataset, Samples, Transform, gather_resident
from nightshift.models.neural.images import PAIR, Augmentation, augment, beta, mix
from nightshift.models.recipes import Group, classes, decay_groups, pretrained
from nightshift.models.recipes.classes import Classifying
from nightshift.models.recipes.pretrained import Pretrained
from nightshift.runtime.errors import UserError

if TYPE_CHECKING:
    from torch.distributed.tensor.parallel import ParallelStyle
    from transformers import ResNetConfig, ResNetModel

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
WIDER = 4  # a bottleneck's outputs over its 3 x 3 convolution's


class ResNetParameters(Pretrained, Classifying):
    """What `task.candidates.<name>.parameters` may hold for the kind `resnet`; ResNet-50 is in the docs."""

    pretrained_rate = 3e-4

    epochs: Epochs = 30
    batch_size: BatchSize = Field(64, description="images of a step, over all processes")
    learning_rate: LearningRate = Field(0.003, description="of Adam, at most; falls to 0 after the last step")
    threads: Threads = Field(2, description="on the CPU")
    stages: Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,2}(,[1-9][0-9]{0,2}){0,9}$")] = Field(
        "1,1,1", description="residual blocks of each stage: each is twice as wide as the one before, at half its size"
    )
    width: Width = Field(32, description="channels of the first stage, in a bottleneck those of its 3 x 3 convolution")
    bottleneck: bool = Field(False, description="true: blocks of 1 x 1, 3 x 3 and 1 x 1; false: of two 3 x 3")
    stem: Literal["small", "large"] = Field(
        "small", description="small: 3 x 3, for images up to some 64 pixels; large: 7 x 7 and a pooling, a quarter left"
    )
    shift: Annotated[float, annotated_types.Interval(ge=0, lt=0.5)] = Field(
        0.1, description="of the side, by how much a training image is moved at most"
    )
    flip: bool = Field(False, description="true: half of the training images are mirrored")
    mixup: Annotated[float, annotated_types.Interval(ge=0, le=1000)] = Field(
        0, description="alpha of the Beta distribution by which training images are mixed in pairs; 0: they are not"
    )
    sync_batch_norm: bool = Field(
        False,
        description="true: several processes normalize the whole batch together, as one would; "
        "false: each its own rows, and the first one's statistics are kept",
    )
    channels_last: bool = Field(True, description="in memory; false: a channel's pixels lie together")

    @property
    def layout(self) -> torch.memory_format:
        """How images and weights lie in memory."""
        return torch.channels_last if self.channels_last else torch.contiguous_format


@dataclass(frozen=True)
class Shape:
    """What a network's layers are.

    Attributes:
        stages: residual blocks of each.
        width: channels of the first stage, in a bottleneck those of its 3 x 3 convolution.
        bottleneck: whether blocks are.
        is_large: whether the stem is.
        scale: what pixels are divided by, of each channel or of all.
        shift: what is taken from them then.
    """

    stages: Sequence[int]
    width: int
    bottleneck: bool
    is_large: bool
    scale: Sequence[float] = (127.5,)
    shift: Sequence[float] = (128 / 127.5,)  # around a whole gray, so that INT8 holds pixels exactly


class Stem(nn.Module):
    """Pixels to the first channels: uint8 (n, height, width, channels) -> (n, width, ...)."""

    scale: Tensor
    shift: Tensor

    def __init__(self, channels: int, shape: Shape, layout: torch.memory_format) -> None:
        super().__init__()
        self._layout = layout
        for name in ("scale", "shift"):
            value = torch.tensor(getattr(shape, name))[:, None, None]
            self.register_buffer(name, value, persistent=False)
        size, stride = (7, 2) if shape.is_large else (3, 1)
        self.path = nn.Sequential(*_build_convolution(channels, shape.width, size, stride), nn.ReLU())
        if shape.is_large:
            self.path.append(nn.MaxPool2d(3, 2, 1))

    def forward(self, pixels: Tensor) -> Tensor:
        """Center pixels and convolve them; their last axis goes first, in memory where the layout says so."""
        images = pixels.permute(0, 3, 1, 2).contiguous(memory_format=self._layout)
        convolved: Tensor = self.path(images.float() / self.scale - self.shift)
        return convolved


class BatchNorm(nn.BatchNorm2d):
    """PyTorch's, but that a single value of a channel, which has no variance, is normalized by the statistics so far.

    It comes from one row whose pixels are down to one: the last of an epoch, or the only one of a piece.
    Rows that are recomputed backward have been counted by the statistics already.

    Attributes:
        is_synchronized: whether all processes of the training normalize the rows of a batch together.
    """

    is_synchronized = False

    def forward(self, inputs: Tensor) -> Tensor:
        """Normalize (n, channels, height, width)."""
        if self.training and self.is_synchronized and dist.is_initialized():
            return self._normalize_together(inputs)
        if self.training and inputs.numel() == inputs.shape[1]:
            mean, variance = self.running_mean, self.running_var
            return nn.functional.batch_norm(inputs, mean, variance, self.weight, self.bias, eps=self.eps)
        if self.training and _is_backward():
            mean, variance = self.running_mean, self.running_var
            return nn.functional.batch_norm(inputs, mean, variance, self.weight, self.bias, True, 0.0, self.eps)
        return super().forward(inputs)

    def _normalize_together(self, inputs: Tensor) -> Tensor:
        values, count = inputs.float(), torch.tensor(inputs.numel() / inputs.shape[1], device=inputs.device)
        dist.all_reduce(count)
        mean = add_processes(values.sum((0, 2, 3))) / count
        centered = values - mean[:, None, None]
        variance = add_processes(centered.square().sum((0, 2, 3))) / count
        if not _is_backward():
            self._count_batch(mean.detach(), variance.detach() * count / (count - 1))
        scale = self.weight * (variance + self.eps).rsqrt()
        return (centered * scale[:, None, None] + self.bias[:, None, None]).to(inputs.dtype)

    def _count_batch(self, mean: Tensor, variance: Tensor) -> None:
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        self.running_mean.lerp_(mean, self.momentum or 0.0)
        self.running_var.lerp_(variance, self.momentum or 0.0)
        self.num_batches_tracked += 1


class _ProcessSum(torch.autograd.Function):
    @staticmethod
    def forward(_: Any, values: Tensor) -> Tensor:
        total = values.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> Tensor:
        return _ProcessSum.forward(context, gradient)


def add_processes(values: Tensor) -> Tensor:
    """Return the sum of the tensors of all processes, through which gradients pass."""
    total: Tensor = _ProcessSum.apply(values)  # type: ignore[no-untyped-call]
    return total


def _is_backward() -> bool:
    # as torch.utils.checkpoint asks; a compiled graph is not run again
    return not torch.compiler.is_compiling() and torch._C._current_graph_task_id() != -1  # noqa: SLF001


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
        self.shortcut = nn.Sequential() if is_same else nn.Sequential(*_build_convolution(inputs, outputs, 1, stride))

    def forward(self, images: Tensor) -> Tensor:
        """Return the rectified sum, (n, outputs, ...)."""
        return nn.functional.relu(self.path(images) + self.shortcut(images))


class ClassifierHead(nn.Module):
    """The mean over places, and a score for each class: (n, inputs, ...) -> logits (n, classes)."""

    def __init__(self, inputs: int, classes: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits."""
        logits: Tensor = self.linear(images.mean((2, 3)))
        return logits


@dataclass(frozen=True)
class ResNet:
    """The recipe.

    Attributes:
        field: where the parameters stand in the config, for messages.
        side: pixels of an image's side.
        channels: of an image.
        classes: how many there are.
        fit: depth, width and how it is fitted.
        counts: training rows of each class, where they are balanced.
        is_multilabel: whether a row has any number of classes.
    """

    field: str
    side: int
    channels: int
    classes: int
    fit: ResNetParameters
    counts: Sequence[int] = ()
    is_multilabel: bool = False

    def __post_init__(self) -> None:
        """Check the weights of classes.

        Raises:
            UserError: when there are not as many.
        """
        classes.check_weights(self.field, self.fit, self.classes)

    def model(self) -> nn.Sequential:
        """Return a network, uint8 (n, side, side, channels) -> logits (n, classes): what is pretrained is.

        Raises:
            UserError: when the pretrained weights cannot be had, or are those of another network.
        """
        *blocks, head = self._build_untrained()
        if self.fit.pretrained:
            _fill(blocks, self._load_published())
        # as the images are: weights and gradients of another layout would be copied in every step
        return nn.Sequential(*blocks, head).to(memory_format=self.fit.layout)  # type: ignore[call-overload, no-any-return]

    def _build_untrained(self) -> nn.Sequential:
        shape = self.shape
        blocks: list[nn.Module] = [Stem(self.channels, shape, self.fit.layout)]
        inputs = shape.width
        for stage, count in enumerate(shape.stages):
            for number in range(count):
                stride = 2 if stage and not number else 1
                blocks.append(Residual(inputs, shape.width << stage, stride, shape.bottleneck))
                inputs = (shape.width << stage) * (WIDER if shape.bottleneck else 1)
        model = nn.Sequential(*blocks, ClassifierHead(inputs, self.classes))
        for module in model.modules():
            if isinstance(module, BatchNorm):
                module.is_synchronized = self.fit.sync_batch_norm
        return model

    @cached_property
    def shape(self) -> Shape:
        """What its layers are; those of a pretrained network, whose pixels it scales as that one does.

        Raises:
            UserError: when it is another kind of network.
        """
        fit = self.fit
        if not fit.pretrained:
            return Shape(
                [int(count) for count in fit.stages.split(",")], fit.width, fit.bottleneck, fit.stem == "large"
            )
        config, is_deep = self._config, self._config.layer_type == "bottleneck"
        mean, deviation = self._normalization()
        scale = [255 * channel for channel in deviation]
        shift = [channel / other for channel, other in zip(mean, deviation, strict=True)]
        return Shape(list(config.depths or []), config.embedding_size, is_deep, True, scale, shift)

    @property
    def change(self) -> Transform:
        """What is done to the training images of a batch."""
        return Transform(self.augment, PAIR if self.fit.mixup else 1)

    def augment(self, samples: Samples, noise: Tensor) -> Samples:
        """Move, mirror and mix training images, uint8 (b, side, side, channels), by noise, (b, NOISE)."""
        images = augment(Augmentation(round(self.fit.shift * self.side), self.fit.flip), samples[0], noise)
        moved = images, samples[1]
        return mix(moved, beta(noise[:, 3], self.fit.mixup), self.classes) if self.fit.mixup else moved

    def loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return the mean loss of logits (n, classes) and classes: numbers, int64 (n,), or shares."""
        return classes.measure_loss(self.fit, self._weights, outputs, labels, self.is_multilabel)

    @cached_property
    def _weights(self) -> tuple[float, ...]:
        return classes.weigh_classes(self.fit, self.counts)

    def optimizer_groups(self, trained: Mapping[str, Tensor]) -> list[Group]:
        """Return the trained parameters, vectors apart where weights decay."""
        return decay_groups(self.fit, trained)

    def tensor_plan(self, part: nn.Sequential, processes: int) -> "dict[str, ParallelStyle]":  # noqa: ARG002
        """Refuse: convolutions are not shared.

        Raises:
            UserError: always.
        """
        raise UserError("task.trainer.tensor: a resnet's layers are not shared; write tensor: 1")

    @cached_property
    def _config(self) -> "ResNetConfig":
        from transformers import ResNetConfig

        source = f"{self.field}.pretrained"
        config: ResNetConfig = pretrained.read(ResNetConfig, source, self.fit.pretrained)
        if config.model_type != "resnet":
            raise UserError(f"{source}: is a network of type {config.model_type!r}; choose one of type 'resnet'")
        widths, depths = list(config.hidden_sizes or []), config.depths or []
        expected = {
            "num_channels": self.channels,
            "embedding_size": widths[0] // (WIDER if config.layer_type == "bottleneck" else 1),
            "hidden_sizes": [widths[0] << stage for stage in range(len(depths))],
            "hidden_act": "relu",
            "downsample_in_first_stage": False,
            "downsample_in_bottleneck": False,
        }
        for name, value in expected.items():
            if getattr(config, name) != value:
                raise UserError(f"{source}: its {name} is {getattr(config, name)!r}; choose a network with {value!r}")
        return config

    def _normalization(self) -> tuple[Sequence[float], Sequence[float]]:
        source, default = f"{self.field}.pretrained", (IMAGENET_MEAN, IMAGENET_STD)
        return pretrained.read_normalization(source, self.fit.pretrained, self.channels, default)

    def _load_published(self) -> "ResNetModel":
        from transformers import ResNetModel

        source, name = f"{self.field}.pretrained", self.fit.pretrained
        model: ResNetModel = pretrained.network(ResNetModel, source, name, config=self._config)
        return model

    def flops(self) -> int:
        """Return what PyTorch counts for one image, forward and backward."""
        with torch.device("meta"), FlopCounterMode(display=False) as counter:
            # two, since the statistics of a batch need more than one value
            pixels = torch.zeros((2, self.side, self.side, self.channels), dtype=torch.uint8)
            self._build_untrained()(pixels).sum().backward()
        return int(counter.get_total_flops()) // 2

    def random_rows(self, count: int, device: torch.device) -> AugmentedDataset:
        """Return images of random pixels."""
        size = (count, self.side, self.side, self.channels)
        pixels = torch.randint(256, size, dtype=torch.uint8, device=device)
        labels = classes.draw_labels(count, self.classes, self.is_multilabel, device)
        return AugmentedDataset(gather_resident(pixels), labels, self.fit.batch_size, self.change)


def build(field: str, shape: Mapping[str, Any], values: Mapping[str, Any]) -> ResNet:
    """Return a recipe; see `nightshift.models.recipes.build`."""
    return ResNet(field, **shape, fit=check_parameters(ResNetParameters, field, values))


def _fill(blocks: Sequence[nn.Module], network: "ResNetModel") -> None:
    """Copy weights and statistics: convolution after convolution, the shortcut's last."""
    layers: list[Any] = [layer for stage in network.encoder.stages for layer in stage.layers]  # type: ignore[union-attr]
    theirs = [
        _find_weighted(network.embedder),
        *([*_find_weighted(layer.layer), *_find_weighted(layer.shortcut)] for layer in layers),
    ]
    for block, modules in zip(blocks, theirs, strict=True):
        for own, other in zip(_find_weighted(block), modules, strict=True):
            own.load_state_dict(other.state_dict())


def _find_weighted(part: nn.Module) -> list[nn.Module]:
    return [module for module in part.modules() if isinstance(module, nn.Conv2d | nn.BatchNorm2d)]


def _layers(inputs: int, width: int, outputs: int, stride: int, bottleneck: bool) -> list[nn.Module]:
    if not bottleneck:
        return [*_build_convolution(inputs, width, 3, stride), nn.ReLU(), *_build_convolution(width, outputs, 3, 1)]
    before, middle = _build_convolution(inputs, width, 1, 1), _build_convolution(width, width, 3, stride)
    return [*before, nn.ReLU(), *middle, nn.ReLU(), *_build_convolution(width, outputs, 1, 1)]


def _build_convolution(inputs: int, outputs: int, size: int, stride: int) -> list[nn.Module]:
    kind = Pointwise if size == 1 else nn.Conv2d
    convolution = kind(inputs, outputs, size, stride, size // 2, bias=False)
    nn.init.kaiming_normal_(convolution.weight, mode="fan_out", nonlinearity="relu")
    return [convolution, BatchNorm(outputs)]
