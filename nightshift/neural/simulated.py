"""A network of each family over random rows, to be measured: how fast it trains depends on their shape alone.

Programs that measure take a request, which is JSON: `device`, the network's `kind`, `shape` and `parameters`, how many
`rows`, and `trainer`, how processes share it. They answer in lines of JSON. Where torchrun has started several
processes, the first one answers.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from nightshift import step
from nightshift.config.neural import Trainer
from nightshift.errors import UserError
from nightshift.neural import devices, processes
from nightshift.neural.data import Changed, Resident, Rows, held, unchanged
from nightshift.neural.recipes import Recipe, bert, checked, mlp, resnet
from nightshift.neural.recipes.bert import Bert
from nightshift.neural.recipes.mlp import MLP
from nightshift.neural.recipes.resnet import ResNet
from nightshift.neural.trainer import Training

FIELD = "parameters"
ENDLESS = 10**9  # epochs
LENGTH = 300  # of a reason

Request = Mapping[str, Any]


def answer(request: str, work: Callable[[Request, torch.device], None]) -> None:
    """Do what a request asks for, or say why it cannot be done, and exit with 2."""
    asked = json.loads(request)
    try:
        work(asked, devices.torch_device(asked["device"]))
    except (UserError, RuntimeError) as error:  # the latter: out of memory, no compiler
        say({"refused": " ".join((str(error) or type(error).__name__).split())[:LENGTH]})
        sys.exit(step.USER_ERROR)


def say(found: Mapping[str, Any]) -> None:
    """Answer a line."""
    if step.is_first():
        print(json.dumps(found), flush=True)  # noqa: T201 the answer of a program


@contextmanager
def training(asked: Request, device: torch.device) -> Iterator[Training]:
    """Give the endless training that a request describes, to every process that shares it.

    Raises:
        UserError: when a parameter is refused, or the processes cannot share it so.
    """
    made: Any = recipe(asked["kind"], asked["shape"], asked["parameters"])
    made = replace(made, fit=made.fit.model_copy(update={"epochs": ENDLESS}))
    with processes.joined(device), devices.reproducible(0, made.fit.threads):
        drawn = rows(made, asked["rows"], device)
        yield Training(processes.replica(made, Trainer.checked(asked["trainer"]), device), drawn)


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


def rows(made: Recipe, count: int, device: torch.device) -> Rows:
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
        return Changed(held(pixels), _labels(count, made.classes, device), size, made.augmented)
    assert isinstance(made, Bert)
    tokens = torch.randint(made.vocabulary, (count, made.length), dtype=torch.int32, device=device)
    return Changed(held(tokens), _labels(count, made.classes, device), size, unchanged)


def _labels(count: int, classes: int, device: torch.device) -> Tensor:
    return torch.randint(classes, (count,), device=device)
