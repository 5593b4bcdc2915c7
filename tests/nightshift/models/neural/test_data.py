"""Rows that are gathered on the host, ahead of the steps that take them."""

import threading
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest
import torch

from nightshift.models.neural import devices, trainer
from nightshift.models.neural.data import (
    BLOCK,
    BatchShare,
    GatherDataset,
    ResidentDataset,
    TrainingDataset,
    gather_streamed,
)
from nightshift.models.neural.replica import Replica
from nightshift.models.neural.trainer import NetworkTraining
from nightshift.models.recipes.mlp import MLP, MLPParameters
from nightshift.runtime.errors import PreemptedError

CPU = torch.device("cpu")
INPUTS = np.arange(40, dtype=np.float32).reshape(20, 2)
LABELS = torch.arange(20.0)


def gathered(size: int = 3, inputs: npt.NDArray[np.float32] = INPUTS, width: int = BLOCK) -> GatherDataset:
    dataset = GatherDataset(gather_streamed(inputs.__getitem__, width, CPU), torch.arange(float(len(inputs))), size)
    dataset.seed()
    return dataset


def resident(size: int = 3) -> ResidentDataset:
    dataset = ResidentDataset(torch.from_numpy(INPUTS), LABELS, size)
    dataset.seed()
    return dataset


def same(ours: list[BatchShare], theirs: list[BatchShare]) -> bool:
    pairs = [pair for one, other in zip(ours, theirs, strict=True) for pair in zip(one[:2], other[:2], strict=True)]
    return all(torch.equal(first, second) for first, second in pairs)


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("ahead")]


def epochs(rows: TrainingDataset, count: int) -> Iterator[BatchShare]:
    return (batch for _ in range(count) for batch in rows.epoch())


@pytest.mark.parametrize("width", [8, BLOCK // 6, BLOCK], ids=["all at once", "two batches", "each batch"])
def test_gathered_rows_come_in_the_order_of_resident_ones(width: int) -> None:
    assert same(list(epochs(gathered(width=width), 3)), list(epochs(resident(), 3)))


@pytest.mark.parametrize("done", range(1, 9))
def test_an_epoch_of_gathered_rows_goes_on_after_any_batch(done: int) -> None:
    """Seven batches an epoch, of which more are gathered than were taken."""
    rows, resumed = gathered(), gathered()
    taken = epochs(rows, 2)
    before = [next(taken) for _ in range(done)]
    resumed.load(rows.state())

    left = [*resumed.epoch(done % 7), *(resumed.epoch() if done < 7 else [])]
    assert same(before + left, list(epochs(resident(), 2)))


@pytest.mark.parametrize("done", [0, 1, 5, 200])
def test_a_batch_lies_in_memory_as_among_resident_rows(done: int) -> None:
    """Up to the width of a register: the last bits of a product may depend on it."""
    inputs = np.zeros((9000, 77), np.float32)
    assert inputs.nbytes > 2 * BLOCK
    among = ResidentDataset(torch.from_numpy(inputs), torch.arange(9000.0), 33).epoch(done)
    alone = gathered(33, inputs, inputs[0].nbytes).epoch(done)
    offsets = [[batch[0].data_ptr() % 64 for batch in batches] for batches in (among, alone)]
    assert offsets[0] == offsets[1]


def test_a_whole_epoch_leaves_no_thread_behind() -> None:
    assert list(gathered().epoch())
    assert not threads()


def test_a_training_that_ends_inside_an_epoch_leaves_no_thread_behind() -> None:
    class Preempted(trainer.Checkpointer):
        def resume(self, training: NetworkTraining) -> None:
            pass

        def after(self, training: NetworkTraining) -> None:
            assert threads()
            raise PreemptedError("a notice")

    rows = gathered(size=2)
    with devices.reproducible(0, threads=1), pytest.raises(PreemptedError):
        trainer.fit(Replica(MLP(2, MLPParameters(hidden=4, batch_size=2)), CPU), rows, Preempted())
    assert not threads()
