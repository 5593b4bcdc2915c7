"""The loss of networks that tell classes apart: cross-entropy, binary of each class where a row has any number of them.

Means are over rows and never over weights, so that pieces of a batch add up to the whole.
"""

from collections.abc import Sequence
from functools import cache
from typing import Annotated

import annotated_types
import torch
from pydantic import Field, StringConstraints
from torch import Tensor, nn

from nightshift.config.neural import Fit
from nightshift.runtime.errors import UserError

BALANCED = "balanced"
LEAST = 1e-6  # probability of the other classes, below which a focal loss has no slope

FocalGamma = Annotated[float, annotated_types.Interval(ge=0, le=10)]


class Classifying(Fit):
    """How a network is fitted that tells classes apart."""

    label_smoothing: Annotated[float, annotated_types.Interval(ge=0, lt=1)] = 0.0
    class_weights: Annotated[str, StringConstraints(pattern=r"^(balanced|\d+(\.\d+)?(,\d+(\.\d+)?)+)?$")] = Field(
        "",
        description='of each class in the loss, in the order of task.classes, such as "1,5"; balanced: as much less as '
        "it has more training rows; empty: all alike. With task.label_separator, of the rows that have the class",
    )
    focal_gamma: FocalGamma = Field(
        0, description="rows whose class is likely already count less: (1 - probability) ** gamma; 0: all alike"
    )


def check_weights(field: str, fit: Classifying, classes: int) -> None:
    """Refuse weights of another number of classes.

    Raises:
        UserError: naming both numbers.
    """
    count = len(fit.class_weights.split(","))
    if fit.class_weights not in ("", BALANCED) and count != classes:
        raise UserError(
            f"{field}.class_weights: has {count} numbers, and task.classes has {classes}; write one for each, "
            f"or {BALANCED}"
        )


def weigh_classes(fit: Classifying, counts: Sequence[int]) -> tuple[float, ...]:
    """Return the weight of each class, by its training rows; empty where all weigh alike."""
    if fit.class_weights != BALANCED:
        return tuple(float(weight) for weight in fit.class_weights.split(",") if weight)
    return tuple(sum(counts) / (len(counts) * max(count, 1)) for count in counts)


def measure_loss(
    fit: Classifying, weights: tuple[float, ...], outputs: Tensor, labels: Tensor, is_multilabel: bool = False
) -> Tensor:
    """Return the mean loss of rows, each times its class's weight.

    Focal: Lin, Goyal, Girshick, He & Dollár, Focal Loss for Dense Object Detection, 2017, equation 5.

    Args:
        fit: smoothing and gamma.
        weights: of classes; empty: all 1.
        outputs: logits (n, classes).
        labels: numbers of classes, int64 (n,), or shares of each, float32 (n, classes).
        is_multilabel: whether a row has any number of classes: the loss is the mean of theirs.
    """
    if is_multilabel:
        return _measure_binary_loss(fit, weights, outputs.float(), labels)
    weight = _as_tensor(weights, outputs.device) if weights else None
    smoothing = fit.label_smoothing
    if not fit.focal_gamma:
        losses = nn.functional.cross_entropy(outputs, labels, weight, label_smoothing=smoothing, reduction="none")
        return losses.mean()
    logs = outputs.float().log_softmax(1)
    shares = labels if labels.dim() == 2 else nn.functional.one_hot(labels, outputs.shape[1])
    smooth = shares * (1 - smoothing) + smoothing / outputs.shape[1]
    others = (-logs.expm1()).clamp(min=LEAST)
    losses = -smooth * others**fit.focal_gamma * logs
    return (losses if weight is None else losses * weight).sum(1).mean()


def _measure_binary_loss(fit: Classifying, weights: tuple[float, ...], outputs: Tensor, shares: Tensor) -> Tensor:
    """Return the mean over rows and classes of the binary cross-entropy, positives times their class's weight."""
    smooth = shares * (1 - fit.label_smoothing) + fit.label_smoothing / 2
    losses = [-smooth * nn.functional.logsigmoid(outputs), -(1 - smooth) * nn.functional.logsigmoid(-outputs)]
    if fit.focal_gamma:
        others = [outputs.neg().sigmoid().clamp(min=LEAST), outputs.sigmoid().clamp(min=LEAST)]
        losses = [other**fit.focal_gamma * loss for other, loss in zip(others, losses, strict=True)]
    positive, negative = losses
    return ((positive * _as_tensor(weights, outputs.device) if weights else positive) + negative).mean()


def draw_labels(count: int, classes: int, is_multilabel: bool, device: torch.device) -> Tensor:
    """Return random labels of rows, in a form that `measure_loss` takes."""
    numbers = torch.randint(classes, (count,), device=device)
    return nn.functional.one_hot(numbers, classes).float() if is_multilabel else numbers


@cache
def _as_tensor(weights: tuple[float, ...], device: torch.device) -> Tensor:
    return torch.tensor(weights, device=device)  # once: each copy to a GPU waits for what it computes
