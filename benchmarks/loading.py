"""What processes read of images on disk: a share of each batch, beside whole batches of which a share is kept.

    python -m benchmarks.loading [--images 4096] [--epochs 2] [--processes 1 2 4]

Nothing is computed but the augmentation. All processes share the machine's cores, so that CPU seconds count.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import numpy.typing as npt
import torch

from benchmarks import figures
from nightshift.items.shards import Array, Shards
from nightshift.models.neural import processes
from nightshift.models.neural.data import AugmentedDataset, BatchShare, gather_streamed
from nightshift.models.neural.epochs import RowShare
from nightshift.models.neural.shares import gather
from nightshift.models.recipes.resnet import ResNet, ResNetParameters
from tests.nightshift.models.neural import forked

CPU = torch.device("cpu")
SIDE, BATCH, ROUNDS = 128, 256, 3
IMAGES, TIMES = "day.npy", "times.json"


class CountingShards(Shards):
    """Shards that count the bytes that this process reads of them."""

    read_bytes = 0

    def take(self, rows: npt.NDArray[np.int64]) -> Array:
        CountingShards.read_bytes += len(rows) * self.width
        return super().take(rows)


def iterate_share(dataset: AugmentedDataset, share: RowShare) -> Iterator[BatchShare]:
    """Yield a process's share of each batch."""
    yield from dataset.epoch(0, share)


def cut_whole(dataset: AugmentedDataset, share: RowShare) -> Iterator[BatchShare]:
    """Yield it too, of whole batches."""
    for inputs, labels, size in dataset.epoch():
        yield BatchShare(inputs[share.span(size)], labels[share.span(size)], size)


WAYS = {"a share": iterate_share, "all": cut_whole}


def measure(folder: str, epochs: str) -> None:
    """Go through the images in both ways in turn; the first process writes what all have measured."""
    with processes.join_processes(CPU):
        torch.set_num_threads(1)
        share = RowShare(*(int(os.environ[name]) for name in ("RANK", "WORLD_SIZE")))
        dataset = open_images(Path(folder, IMAGES))
        calls = {name: partial(way, dataset, share) for name, way in WAYS.items()}
        _, *timed = [{name: time_epochs(call, int(epochs)) for name, call in calls.items()} for _ in range(1 + ROUNDS)]
        every = gather(timed)
        if share.index == 0:
            Path(folder, TIMES).write_text(json.dumps(every))


def open_images(file: Path) -> AugmentedDataset:
    """Return the images as a training goes through them that leaves them on disk."""
    shards = CountingShards([np.load(file, mmap_mode="r")])
    recipe = ResNet("parameters", SIDE, 3, 2, ResNetParameters(flip=True))
    labels = torch.zeros(len(shards), dtype=torch.int64)
    return AugmentedDataset(gather_streamed(shards.take, shards.width, CPU), labels, BATCH, recipe.change)


def time_epochs(iterate: Callable[[], Iterator[BatchShare]], epochs: int) -> list[float]:
    """Return the wall and CPU seconds of some epochs, and the bytes that were read."""
    gather(None)
    before, wall, cpu = CountingShards.read_bytes, time.perf_counter(), time.process_time()
    for _ in range(epochs):
        for _ in iterate():
            pass
    cpu = time.process_time() - cpu
    gather(None)
    return [time.perf_counter() - wall, cpu, CountingShards.read_bytes - before]


def summarize(every: list[list[dict[str, list[float]]]], images: int) -> list[figures.Row]:
    """Return a row a way: medians over the rounds of what all processes have measured."""
    rows: list[figures.Row] = []
    for name in WAYS:
        rounds = [[timed[name] for timed in measured] for measured in zip(*every, strict=True)]
        wall = median(max(seconds for seconds, _, _ in measured) for measured in rounds)
        cpu = median(sum(seconds for _, seconds, _ in measured) for measured in rounds)
        size = max(read for _, _, read in rounds[0])
        row = {"processes": len(every), "each reads": name, "MB each": size / 1e6}
        rows.append(row | {"rows/CPU s": round(images / cpu), "rows/s": round(images / wall)})
    return rows


def main() -> None:
    """Measure and publish."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loading", description=__doc__)
    parser.add_argument("--images", type=int, default=4096)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    arguments = parser.parse_args()
    rows: list[figures.Row] = []
    with tempfile.TemporaryDirectory() as folder:
        shape = (arguments.images, SIDE, SIDE, 3)
        np.save(Path(folder, IMAGES), np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8))
        for count in arguments.processes:
            forked.run(count, measure, folder, str(arguments.epochs))
            rows += summarize(json.loads(Path(folder, TIMES).read_text()), arguments.images * arguments.epochs)
    what = f"Epochs: {arguments.epochs}, of {arguments.images:,} images of {SIDE} x {SIDE} pixels"
    figures.publish("loading", rows, f"{what} in the page cache, {BATCH} a batch, moved and mirrored.")


if __name__ == "__main__":
    main()
