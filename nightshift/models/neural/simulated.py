"""A network of each family over random rows, to be measured: how fast it trains depends on their shape alone.

Programs that measure take a request, which is JSON: `device`, the network's `kind`, `shape` and `parameters`, how many
`rows`, and `trainer`, how processes share it. They answer in lines of JSON. Where torchrun has started several
processes, the first one answers.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from nightshift.config.neural import Trainer
from nightshift.config.section import MOST_EPOCHS
from nightshift.models import recipes
from nightshift.models.neural import devices, processes
from nightshift.models.neural.data import TrainingDataset
from nightshift.models.neural.trainer import NetworkTraining
from nightshift.models.recipes import Recipe
from nightshift.runtime import step
from nightshift.runtime.errors import UserError

FIELD = "parameters"
LENGTH = 300  # characters of a reason

Request = Mapping[str, Any]


def answer(text: str, work: Callable[[Request, torch.device], None]) -> None:
    """Do what a request asks for, or say why it cannot be done, and exit with 2."""
    request = json.loads(text)
    try:
        work(request, devices.torch_device(request["device"]))
    except (UserError, RuntimeError) as error:  # the latter: out of memory, no compiler
        say({"refused": " ".join((str(error) or type(error).__name__).split())[:LENGTH]})
        sys.exit(step.USER_ERROR)


def say(message: Mapping[str, Any]) -> None:
    """Answer a line."""
    if step.is_first():
        print(json.dumps(message), flush=True)  # noqa: T201 the answer of a program


@contextmanager
def training(request: Request, device: torch.device) -> Iterator[NetworkTraining]:
    """Give the endless training that a request describes, to every process that shares it.

    Raises:
        UserError: when a parameter is refused, or the processes cannot share it so.
    """
    parameters = {**request["parameters"], "epochs": MOST_EPOCHS}
    recipe = recipes.build(request["kind"], FIELD, request["shape"], parameters)
    with processes.join_processes(device), devices.reproducible(0, recipe.fit.threads):
        dataset = simulate_rows(recipe, request["rows"], device)
        yield NetworkTraining(processes.replica(recipe, Trainer.parse_value(request["trainer"]), device), dataset)


def simulate_rows(recipe: Recipe, count: int, device: torch.device) -> TrainingDataset:
    """Return random rows for a recipe, in whole batches, which take the same time each.

    Raises:
        UserError: when there are fewer than in a batch.
    """
    size = recipe.fit.batch_size
    if size > count:
        raise UserError(f"batch_size is {size}, and there are {count} rows; give more with --rows")
    return recipe.random_rows(count - count % size, device)
