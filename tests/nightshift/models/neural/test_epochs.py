"""What each of several processes reads of an epoch: its share of every batch, and no more."""

import subprocess
import sys

import pytest
import torch

from nightshift.models.neural.data import (
    AugmentedDataset,
    BatchShare,
    GatherDataset,
    ResidentDataset,
    TrainingDataset,
    Transform,
    gather_resident,
    gather_streamed,
)
from nightshift.models.neural.epochs import RowShare
from nightshift.models.neural.images import PAIR, Augmentation, augment, mix
from nightshift.models.neural.packing import PackedDataset, TargetTokens
from tests.nightshift.models.neural.reading import LAYOUTS

CPU = torch.device("cpu")
ROWS, CLASSES = 23, 5
IMAGES = torch.randint(256, (ROWS, 4, 4, 3), dtype=torch.uint8)
LABELS = torch.arange(ROWS) % CLASSES
PACKED, TARGETS = torch.randint(9, (ROWS, 7)), TargetTokens(start=0, vocabulary=7)
COUNTS = torch.from_numpy(TARGETS.count(PACKED.numpy()))


def moved(samples, noise):
    return augment(Augmentation(shift=1, flip=True), samples[0], noise), samples[1]


def mixed(samples, noise):
    return mix(moved(samples, noise), noise[:, 3], CLASSES)


DATASETS = {
    "resident": lambda size: ResidentDataset(IMAGES, LABELS, size),
    "gathered": lambda size: GatherDataset(gather_streamed(IMAGES.numpy().__getitem__, 48, CPU), LABELS, size),
    "moved": lambda size: AugmentedDataset(gather_resident(IMAGES), LABELS, size, Transform(moved)),
    "mixed": lambda size: AugmentedDataset(gather_resident(IMAGES), LABELS, size, Transform(mixed, PAIR)),
    "packed": lambda size: PackedDataset(gather_resident(PACKED), COUNTS, size, TARGETS),
}


def whole(dataset: TrainingDataset, processes: int, skip: int) -> list[BatchShare]:
    """Batches put together from what so many processes have of them."""
    shares = [RowShare(index, processes) for index in range(processes)]
    epochs = [list(dataset.epoch(skip, share)) for share in shares if dataset.seed() is None]
    return [join(shares, parts) for parts in zip(*epochs, strict=True)]


def join(shares: list[RowShare], parts: tuple[BatchShare, ...]) -> BatchShare:
    (size,) = {part.size for part in parts}
    counts = [end - start for start, end in (share.bounds(size) for share in shares)]
    assert all(len(part.inputs) == len(part.labels) == max(1, count) for part, count in zip(parts, counts, strict=True))
    pairs = zip(parts, counts, strict=True)
    inputs, labels = zip(*((part.inputs[:count], part.labels[:count]) for part, count in pairs), strict=True)
    return BatchShare(torch.cat(inputs), torch.cat(labels), size)


@pytest.mark.parametrize("kind", DATASETS)
@pytest.mark.parametrize(
    ("size", "processes", "skip"), [(1, 2, 3), (3, 2, 0), (10, 4, 1), (8, 5, 0), (7, 9, 1), (ROWS + 1, 3, 0)]
)
def test_the_shares_of_all_processes_are_the_batches_of_one_process(kind, size, processes, skip):
    """To the bit, and in the same order, whatever is done to the rows."""
    torch.manual_seed(0)
    dataset = DATASETS[kind](size)

    for ours, expected in zip(whole(dataset, processes, skip), whole(dataset, 1, skip), strict=True):
        assert ours.size == expected.size
        assert torch.equal(ours.inputs, expected.inputs)
        assert torch.equal(ours.labels, expected.labels)


@pytest.mark.parametrize(("together", "around"), [(1, 0), (PAIR, 1)])
@pytest.mark.parametrize("processes", [1, 2, 4])
def test_a_process_gathers_its_share_and_of_pairs_the_other_half(processes, together, around):
    gathered: list[int] = []
    take = lambda rows: gathered.extend(rows) or IMAGES.numpy()[rows]  # noqa: E731
    change = Transform(lambda samples, _: samples, together)
    dataset = AugmentedDataset(gather_streamed(take, 48, CPU), LABELS, 12, change)

    counts = []
    for index in range(processes):
        gathered.clear()
        own = sum(len(batch.labels) for batch in dataset.epoch(0, RowShare(index, processes)))
        assert own <= len(gathered) <= own + 2 * around * len(dataset)
        assert len(set(gathered)) == len(gathered)
        counts.append(own)
    assert sum(counts) == ROWS
    assert max(counts) - min(counts) <= len(dataset)


@pytest.mark.slow
def test_processes_that_share_a_batch_read_equal_parts_and_others_the_same_part():
    """Those of one tensor, pipeline or context group; with replicas and shards the rest is read by others."""
    command = [sys.executable, "-m", "tests.nightshift.models.neural.reading"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-5000:]
    lines = dict(line.rsplit(": ", 1) for line in done.stdout.splitlines())
    assert {name: {float(part) for part in text.split()} for name, text in lines.items()} == {
        name: {1 / parts} for name, (parts, _) in LAYOUTS.items()
    }
