"""How networks of items are fitted and run."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor

from nightshift import storage
from nightshift.config.neural import Fit
from nightshift.config.task import TaskConfig
from nightshift.items import scorer
from nightshift.items.shards import Array
from nightshift.models import weights
from nightshift.models.neural import checkpoints, data, devices, processes, trainer
from nightshift.models.neural.data import TrainingDataset
from nightshift.models.neural.trainer import TrainedNetwork
from nightshift.models.recipes import Recipe

STEPS = 10  # of the trace
PIECES = 4  # of its batches at most: more show the same operations, and a trace of millions of events fills the memory
TOLERANCE = 1e-4
Scores = npt.NDArray[np.float32]
T = TypeVar("T", bound=TaskConfig)


def shorten_fit(parameters: Mapping[str, Any], fit: Fit) -> dict[str, Any]:
    """Return a network's parameters for a trace: one epoch, and of each batch a few micro-batches of the same size."""
    pieces = min(fit.microbatches, PIECES)
    changed = {"microbatches": pieces, "batch_size": fit.batch_size * pieces // fit.microbatches}
    return {**parameters, "epochs": 1} | (changed if pieces < fit.microbatches else {})


@dataclass(frozen=True)
class FitSetup(Generic[T]):
    """What stays the same through a training.

    Attributes:
        task: candidates and how networks are trained.
        device: `cpu` or `cuda`.
        checkpoints: URI of the folder of this training's checkpoints; empty for none.
        shared: folder by which the processes of a machine prepare rows once together; empty: this one does it alone.
        resident: bytes of inputs up to which all are copied to the device; of more, a batch at a time is.
        in_graph: bytes of weights up to which a graph holds them itself; more lie in files of their own.
    """

    task: T
    device: str
    checkpoints: str = ""
    shared: str = ""
    resident: int = data.RESIDENT
    in_graph: int = weights.IN_GRAPH

    @property
    def torch_device(self) -> torch.device:
        """Where networks are trained.

        Raises:
            UserError: when it is not there.
        """
        return devices.torch_device(self.device)


def field(name: str) -> str:
    """Return where a candidate's parameters stand in the config."""
    return f"task.candidates.{name}.parameters"


def fit(
    setup: FitSetup[Any], name: str, recipe: Recipe, rows: pd.DataFrame, gathered: TrainingDataset
) -> TrainedNetwork:
    """Fit a network on some rows of a training.

    Args:
        setup: task and device.
        name: of the candidate.
        recipe: of the network.
        rows: what it is fitted on.
        gathered: what it sees of them.
    """
    task, folder = setup.task, storage.fingerprint(list(rows["content"]))[:16]
    uri, seconds = storage.join(setup.checkpoints, field(name), folder), task.trainer.checkpoint_seconds
    with (
        checkpoints.open_checkpoints(uri, seconds) if setup.checkpoints else nullcontext() as kept,
        devices.reproducible(task.seed, recipe.fit.threads),
    ):
        replica = processes.replica(recipe, task.trainer, setup.torch_device)
        trained = trainer.fit(replica, gathered, kept)
        trained.model.eval()
        return trained


def run_batches(call: Callable[[Tensor], Tensor], inputs: Array, device: torch.device) -> Scores:
    """Return what a network gives, (n, ...).

    In float32 on a GPU too, since it is what that of a graph is compared with.

    Args:
        call: of some inputs on the device.
        inputs: all of them, (n, ...).
        device: where the network is.
    """
    with torch.no_grad(), devices.exact():
        batches = torch.split(torch.from_numpy(inputs), scorer.AT_ONCE)
        outputs: Scores = torch.cat([call(batch.to(device)).cpu() for batch in batches]).numpy()
    return outputs
