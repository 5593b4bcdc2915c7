"""The multilayer perceptron and its training loop, shared by training, which fits it, and profiling, which measures it.

All rows lie on the device as two tensors. An epoch is one permutation of them, cut into batches that are
views: no row is ever collated on its own.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from typing import Annotated, Any

import annotated_types
import numpy as np
import numpy.typing as npt
import torch
from pydantic import Field, ValidationError
from torch import Tensor, nn

from components.common.config.section import Positive, Section
from components.common.errors import UserError, check_names
from components.tabular.scaler import Matrix


class Parameters(Section):
    """What `task.candidates.<name>.parameters` may hold for the kind `mlp`."""

    hidden: Positive = Field(256, description="units of each hidden layer")
    layers: Positive = Field(1, description="hidden layers")
    epochs: Positive = 15
    batch_size: Positive = 256
    learning_rate: Annotated[float, annotated_types.Gt(0)] = Field(
        0.006, description="of Adam at the first step; falls linearly to 0 at the last"
    )
    threads: Positive = Field(
        1, description="on the CPU; more pay off for wide networks only, and wait for each other on a busy machine"
    )


def parameters(field: str, given: Mapping[str, Any]) -> Parameters:
    """Check an MLP's parameters.

    Args:
        field: where they stand in the config, for the message.
        given: name -> value.

    Raises:
        UserError: on an unknown name or a wrong value.
    """
    check_names(field, given, Parameters.model_fields)
    try:
        return Parameters.model_validate(given)
    except ValidationError as error:
        wrong = error.errors()[0]
        raise UserError(f"{field}.{wrong['loc'][0]}: {wrong['msg']}, got {wrong['input']!r}") from None


def torch_device(name: str) -> torch.device:
    """Return the device of a `--device` flag.

    Raises:
        UserError: when it is `cuda` and PyTorch has no GPU. There is no fallback.
    """
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError(
            f"--device cuda: PyTorch {torch.__version__} finds no GPU; pip install -e '.[gpu]' on a machine "
            "with one, or run with --device cpu"
        )
    return torch.device(name)


@contextmanager
def reproducible(seed: int, threads: int) -> Iterator[None]:
    """Make what runs inside depend on the seed only; restores PyTorch's global settings."""
    # cuBLAS repeats its results only with this, which it reads when it starts
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(seed)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)
        torch.set_num_threads(before)


def resident(matrix: Matrix, labels: npt.NDArray[np.int8], device: torch.device) -> tuple[Tensor, Tensor]:
    """Copy all rows to the device: standardised inputs, float32 (n, d), and labels, float32 (n,)."""
    return torch.from_numpy(matrix).to(device), torch.from_numpy(labels.astype(np.float32)).to(device)


def batches(inputs: Tensor, labels: Tensor, size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield one epoch in random order, `size` rows at a time."""
    order = torch.randperm(len(labels), device=labels.device)
    return zip(torch.split(inputs[order], size), torch.split(labels[order], size), strict=True)


def network(inputs: int, parameters: Parameters) -> nn.Sequential:
    """Return an untrained network, (n, inputs) -> logits (n,)."""
    widths = [inputs] + [parameters.hidden] * parameters.layers
    hidden = [module for before, after in pairwise(widths) for module in (nn.Linear(before, after), nn.ReLU())]
    return nn.Sequential(*hidden, nn.Linear(widths[-1], 1), nn.Flatten(0))


class Loop:
    """A network and its optimizer.

    Args:
        model: the network to train.
        parameters: the learning rate is read from them.
        steps: how many steps the whole training takes, over which the learning rate falls.
    """

    def __init__(self, model: nn.Sequential, parameters: Parameters, steps: int) -> None:
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=parameters.learning_rate, fused=True)
        self.schedule = torch.optim.lr_scheduler.LinearLR(self.optimizer, 1.0, 0.0, total_iters=steps)
        self.loss = nn.BCEWithLogitsLoss()

    def step(self, inputs: Tensor, labels: Tensor) -> None:
        """Take one step: forward, backward, update; inputs (n, d), labels (n,)."""
        self.optimizer.zero_grad()
        self.loss(self.model(inputs), labels).backward()
        self.optimizer.step()
        self.schedule.step()


def fit(inputs: Tensor, labels: Tensor, parameters: Parameters) -> nn.Sequential:
    """Train a network on resident rows; call it inside `reproducible`."""
    model = network(inputs.shape[1], parameters).to(inputs.device)
    loop = Loop(model, parameters, parameters.epochs * -(-len(labels) // parameters.batch_size))
    for _ in range(parameters.epochs):
        for batch in batches(inputs, labels, parameters.batch_size):
            loop.step(*batch)
    return model


def probabilities(model: nn.Sequential, matrix: Matrix) -> Matrix:
    """Return the network's probability of the positive class, float32 (n,), of standardised rows, float32 (n, d)."""
    device = next(model.parameters()).device
    with torch.no_grad():
        scores: Matrix = torch.sigmoid(model(torch.from_numpy(matrix).to(device))).cpu().numpy()
    return scores


def layers(model: nn.Sequential) -> list[tuple[Matrix, Matrix]]:
    """Return the weights (out, in) and biases (out,) of a network's linear layers, float32."""
    linear = [module for module in model if isinstance(module, nn.Linear)]
    return [(_host(module.weight), _host(module.bias)) for module in linear]


def _host(tensor: Tensor) -> Matrix:
    return np.asarray(tensor.detach().cpu().numpy(), dtype=np.float32)
