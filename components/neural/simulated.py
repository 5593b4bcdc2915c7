"""A network of each family over random rows, to be measured: how fast it trains depends on their shape alone."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from components.common.errors import UserError
from components.neural.data import Gathered, Resident, unchanged
from components.neural.recipes import Recipe, bert, checked, mlp, resnet
from components.neural.recipes.bert import Bert
from components.neural.recipes.mlp import MLP
from components.neural.recipes.resnet import ResNet

FIELD = "parameters"


def recipe(kind: str, shape: Mapping[str, int], given: Mapping[str, Any]) -> Recipe:
    """Return a recipe.

    Args:
        kind: as in the config.
        shape: what it has beside its parameters, by name.
        given: its parameters.

    Raises:
        UserError: when it refuses one.
    """
    if kind == "mlp":
        return MLP(**shape, fit=checked(mlp.Parameters, FIELD, given))
    if kind == "resnet":
        return ResNet(FIELD, **shape, fit=checked(resnet.Parameters, FIELD, given))
    return Bert(FIELD, **shape, fit=checked(bert.Parameters, FIELD, given))


def rows(made: Recipe, count: int, device: torch.device) -> Resident:
    """Return random rows for a recipe, in whole batches, which take the same time each.

    Raises:
        UserError: when there are fewer than in a batch.
    """
    size = made.fit.batch_size
    if size > count:
        raise UserError(f"batch_size is {size}, and there are {count} rows; give more with --rows")
    count -= count % size
    if isinstance(made, MLP):
        inputs = torch.randn(count, made.inputs, device=device)
        return Resident(inputs, (inputs[:, 0] > 0).float(), size)
    if isinstance(made, ResNet):
        pixels = torch.randint(256, (count, made.side, made.side, made.channels), dtype=torch.uint8, device=device)
        return Gathered(pixels.__getitem__, _labels(count, made.classes, device), size, made.augmented)
    assert isinstance(made, Bert)
    tokens = torch.randint(made.vocabulary, (count, made.length), dtype=torch.int32, device=device)
    return Gathered(tokens.__getitem__, _labels(count, made.classes, device), size, unchanged)


def _labels(count: int, classes: int, device: torch.device) -> Tensor:
    return torch.randint(classes, (count,), device=device)
