"""The multilayer perceptron over rows of numbers, with one logit."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any

import annotated_types
import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field
from torch import Tensor, nn

from nightshift.config.neural import Fit
from nightshift.config.section import Layers, Width, check_parameters
from nightshift.models.neural.data import ResidentDataset
from nightshift.models.recipes import Group, decay_groups
from nightshift.models.recipes.classes import LEAST, FocalGamma

if TYPE_CHECKING:
    from torch.distributed.tensor.parallel import ParallelStyle

AT_ONCE = 1 << 16  # rows that are on the device while they are scored

Matrix = npt.NDArray[np.float32]


class MLPParameters(Fit):
    """What `task.candidates.<name>.parameters` may hold for the kind `mlp`."""

    hidden: Width = Field(256, description="units of each hidden layer")
    layers: Layers = Field(1, description="hidden layers")
    positive_weight: Annotated[float, annotated_types.Interval(gt=0, le=1e6)] = Field(
        1, description="of a positive row in the loss; a negative one has 1"
    )
    focal_gamma: FocalGamma = Field(
        0, description="rows whose class is likely already count less: (1 - probability) ** gamma; 0: all alike"
    )


def parameters(field: str, values: Mapping[str, Any]) -> MLPParameters:
    """Check an MLP's parameters, which stand at `field` of the config; see `check_parameters`."""
    return check_parameters(MLPParameters, field, values)


@dataclass(frozen=True)
class MLP:
    """The recipe.

    Attributes:
        inputs: numbers of a row.
        fit: width, depth and how it is fitted.
    """

    inputs: int
    fit: MLPParameters

    def model(self) -> nn.Sequential:
        """Return an untrained network, (n, inputs) -> logits (n, 1); a block is a linear layer and what follows it."""
        hidden = [nn.Sequential(nn.Linear(before, after), nn.ReLU()) for before, after in pairwise(self._widths)]
        return nn.Sequential(*hidden, nn.Sequential(nn.Linear(self._widths[-1], 1)))

    def loss(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Return the mean loss of logits (n, 1) and labels 0 or 1, float32 (n,).

        Focal: Lin, Goyal, Girshick, He & Dollár, Focal Loss for Dense Object Detection, 2017, equation 5.
        """
        logits, fit = outputs.flatten(), self.fit
        if not fit.focal_gamma and fit.positive_weight == 1:
            return nn.functional.binary_cross_entropy_with_logits(logits, labels)
        losses = nn.functional.binary_cross_entropy_with_logits(logits, labels, reduction="none")
        weights = 1 + (fit.positive_weight - 1) * labels
        if fit.focal_gamma:
            weights = weights * (-torch.expm1(-losses)).clamp(min=LEAST) ** fit.focal_gamma
        return (losses * weights).mean()

    def optimizer_groups(self, trained: Mapping[str, Tensor]) -> list[Group]:
        """Return the trained parameters, vectors apart where weights decay."""
        return decay_groups(self.fit, trained)

    def tensor_plan(self, part: nn.Sequential, processes: int) -> "dict[str, ParallelStyle]":  # noqa: ARG002
        """Share units in one layer and the sums over them in the next, so that only every second layer communicates."""
        from torch.distributed.tensor import Replicate
        from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

        names = [name for name, module in part.named_modules() if isinstance(module, nn.Linear)]
        plan: dict[str, ParallelStyle] = {}
        for units, sums in zip(names[::2], names[1::2], strict=False):
            plan |= {units: ColwiseParallel(), sums: RowwiseParallel()}
        if len(names) % 2:
            plan[names[-1]] = RowwiseParallel(input_layouts=Replicate())
        return plan

    def flops(self) -> int:
        """Return 2 per weight forward, 4 backward, where nothing is passed on below the first layer."""
        weights = [before * after for before, after in pairwise([*self._widths, 1])]
        return 6 * sum(weights) - 2 * weights[0]

    def random_rows(self, count: int, device: torch.device) -> ResidentDataset:
        """Return rows whose label is the sign of their first input."""
        inputs = torch.randn(count, self.inputs, device=device)
        return ResidentDataset(inputs, (inputs[:, 0] > 0).float(), self.fit.batch_size)

    @property
    def _widths(self) -> list[int]:
        return [self.inputs] + [self.fit.hidden] * self.fit.layers


def build(field: str, shape: Mapping[str, int], values: Mapping[str, Any]) -> MLP:
    """Return a recipe; see `nightshift.models.recipes.build`."""
    return MLP(**shape, fit=parameters(field, values))


def resident(matrix: Matrix, labels: npt.NDArray[np.int8], device: torch.device) -> tuple[Tensor, Tensor]:
    """Copy all rows to the device: standardized inputs, float32 (n, d), and labels, float32 (n,)."""
    return torch.from_numpy(matrix).to(device), targets(labels, device)


def targets(labels: npt.NDArray[np.int8], device: torch.device) -> Tensor:
    """Copy labels to the device, float32 (n,)."""
    return torch.from_numpy(labels.astype(np.float32)).to(device)


def probabilities(model: nn.Sequential, matrix: Matrix) -> Matrix:
    """Return the network's probability of the positive class, float32 (n,), of standardized rows, float32 (n, d)."""
    device = next(model.parameters()).device
    with torch.no_grad():
        batches = torch.split(torch.from_numpy(matrix), AT_ONCE)
        scores = [torch.sigmoid(model(batch.to(device))).flatten().cpu() for batch in batches]
    return _host(torch.cat(scores))


def layers(model: nn.Sequential) -> list[tuple[Matrix, Matrix]]:
    """Return the weights (out, in) and biases (out,) of a network's linear layers, float32."""
    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    return [(_host(module.weight), _host(module.bias)) for module in linear]


def _host(tensor: Tensor) -> Matrix:
    return np.asarray(tensor.detach().cpu().numpy(), dtype=np.float32)
