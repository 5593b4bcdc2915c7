"""What networks see of images: a shard of pixels a day, decoded and resized once and not in every epoch.

Beside it lies the day's partition: who each row is, and the hash of its pixels, by which the same picture is known
again on another day.
"""

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pandas as pd
import PIL

from components.classes import images, shards
from components.classes.images import Pixels
from components.common import storage
from components.common.config import Config
from components.common.config.classes import Images
from components.common.contracts import tables
from components.common.step import log

# part of every partition's key: raise it whenever the same images would give other pixels
SCHEMA = 1
CHUNK = 64  # images that a process takes at once
READ = 1024  # images of which the files are in memory
PROCESSES = 8  # at most: the cores that are there may be more than a container may use
ALONE = 2000  # images that are decoded sooner than processes start

Chunks = Iterable[Sequence[bytes]]
Decode = Callable[[Chunks], Iterator[Pixels]]


@dataclass(frozen=True)
class Job:
    """What the pixels of every day are made of."""

    config: Config
    task: Images
    lake: str
    events: tables.Table

    def uri(self, day: date) -> str:
        """Return where a day's partition lies: its name is a hash of the images and of what networks see of them."""
        task = self.task
        made_of = [SCHEMA, PIL.__version__, self.events.partition(day).sha256, task.side, task.channels]
        return tables.partition_uri(self.lake, self.config.name, "features", day, storage.fingerprint(made_of))


def write(job: Job, missing: dict[date, str]) -> dict[date, tables.Partition]:
    """Make and write the missing days, each complete before the next; a run that is ended resumes after the last.

    Args:
        job: what they are made of.
        missing: day -> URI of its partition.
    """
    with decoding(job.task, sum(job.events.partition(day).rows for day in missing)) as decode:
        return {day: _day(job, day, uri, decode) for day, uri in missing.items()}


@contextmanager
def decoding(task: Images, count: int) -> Iterator[Decode]:
    """Give what decodes chunks of images: a process for each core, up to `PROCESSES`, or this one for a few."""
    one = partial(_pixels, task)
    if count <= ALONE:
        yield lambda chunks: map(one, chunks)
        return
    # not forked: libraries here have threads
    with ProcessPoolExecutor(min(len(os.sched_getaffinity(0)), PROCESSES), get_context("spawn")) as pool:
        yield lambda chunks: pool.map(one, chunks)


def _pixels(task: Images, contents: Sequence[bytes]) -> Pixels:
    decoded = (images.decoded(content, task.max_pixels, task.side) for content in contents)
    return np.stack([images.square(image, task.side, task.channels) for image in decoded])


def _day(job: Job, day: date, uri: str, decode: Decode) -> tables.Partition:
    part, task = job.events.partition(day), job.task
    shape = (part.rows, task.side, task.side, task.channels)
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / "shard.npy"
        pixels = np.lib.format.open_memmap(draft, "w+", np.uint8, shape)
        rows = pd.concat(list(_filled(part, job.config, decode, pixels)), ignore_index=True)
        pixels.flush()
        # before the partition, by whose sidecar both are complete
        storage.copy(str(draft), shards.place(uri))
    log.info("features: %s, %d images", day, part.rows)
    return tables.write_partition(uri, day, rows, {})


def _filled(part: tables.Partition, config: Config, decode: Decode, pixels: Pixels) -> Iterator[pd.DataFrame]:
    """Fill a day's pixels in; yield who its rows are, some at a time."""
    kept, done = ["event_id", "event_time", *(["group"] if config.columns.group else []), "label"], 0
    columns = [*kept, "image"]
    # of a day without rows there is no batch, and its partition needs columns all the same
    batches = storage.read_batches(part.uri, columns, READ) if part.rows else [storage.read_frame(part.uri, columns)]
    for events in batches:
        hashes: list[str] = []
        contents = events["image"].tolist()
        for made in decode(contents[first : first + CHUNK] for first in range(0, len(contents), CHUNK)):
            pixels[done : done + len(made)] = made
            hashes += [storage.sha256(image.tobytes()) for image in made]
            done += len(made)
        yield events[kept].assign(content=pd.Series(hashes, events.index, dtype=str))
