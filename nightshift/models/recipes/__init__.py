"""Model families, one file each: what the trainer has to know of a network.

A recipe declares the network, its loss, the optimizer's groups of its parameters, how its layers are shared between
processes, its floating-point operations, and random rows to measure it with. Its module is named after its kind and has
`build`; other packages bring theirs by entry points of `nightshift.recipes`.
"""

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn

from nightshift import entry_points
from nightshift.config.neural import Fit
from nightshift.models.neural.data import TrainingDataset

if TYPE_CHECKING:
    from torch.distributed.tensor.parallel import ParallelStyle

Group = dict[str, Any]  # as PyTorch's optimizers take them: `params`, and settings that differ, such as `lr`


class Recipe(Protocol):
    """A model family with its parameters."""

    @property
    def fit(self) -> Fit:
        """How it is fitted."""

    def model(self) -> nn.Sequential:
        """Return an untrained network, the same for the same state of PyTorch's generator.

        Its children are the blocks: what is sharded, recomputed and compiled as one; a pipeline is cut between them.
        """

    def loss(self, outputs: Any, labels: Tensor) -> Tensor:
        """Return the mean loss of a row; of outputs (b, ...), several by name where the fit compares rows."""

    def optimizer_groups(self, trained: Mapping[str, Tensor]) -> list[Group]:
        """Return trained parameters, by name in the whole network, in groups with the optimizer's settings.

        A group's learning rate (default: the fit's) follows the schedule like the others. A process calls it with
        those of its part, so that a group may be empty.
        """

    def tensor_plan(self, part: nn.Sequential, processes: int) -> "dict[str, ParallelStyle]":
        """Return how so many processes share each layer of a part, by name; every parameter has to be in it.

        Raises:
            UserError: when they cannot.
        """

    def flops(self) -> int:
        """Return floating-point operations per row of a step, forward and backward."""

    def random_rows(self, count: int, device: torch.device) -> TrainingDataset:
        """Return random rows in whole batches; how fast a network trains depends on their shape alone."""


def find(kind: str) -> ModuleType | None:
    """Return the recipe's module of a kind of candidate, built in or of an installed package; None for no network."""
    if find_spec(f"{__name__}.{kind}"):
        return import_module(f"{__name__}.{kind}")
    point = entry_points.find(entry_points.RECIPES).get(kind)
    return point.load() if point else None


def build(kind: str, field: str, shape: Mapping[str, int], parameters: Mapping[str, Any]) -> Recipe:
    """Return a recipe.

    Args:
        kind: as in the config, of a network.
        field: where the parameters stand in the config, for messages.
        shape: what it has beside its parameters, by name.
        parameters: name -> value.

    Raises:
        UserError: when it refuses a parameter.
    """
    module = find(kind)
    assert module is not None, f"{kind} is no network"
    recipe: Recipe = module.build(field, shape, parameters)
    return recipe


def decay_groups(fit: Fit, trained: Mapping[str, Tensor]) -> list[Group]:
    """Return one group, or two where weights decay: biases, and what norms scale by, are vectors and never do."""
    if not fit.weight_decay:
        return [{"params": list(trained.values())}]
    matrices = [parameter for parameter in trained.values() if parameter.dim() > 1]
    vectors = [parameter for parameter in trained.values() if parameter.dim() <= 1]
    return [{"params": matrices, "weight_decay": fit.weight_decay}, {"params": vectors}]
