"""What networks see of images and texts: a shard a day, made once and not in every epoch.

Beside it lies the day's partition: who each row is, and the hash of what networks see of it, by which the same content
is known again on another day.
"""

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nightshift import storage
from nightshift.config.classes import ClassConfig
from nightshift.contracts import tables
from nightshift.items import shards
from nightshift.items.shards import Array
from nightshift.runtime.step import log
from nightshift.tasks.base import features as base
from nightshift.tasks.base.features import FeatureDetails, FeatureSetup
from nightshift.tasks.classification import kinds
from nightshift.tasks.classification.kinds import View

CHUNK = 64  # rows that a process takes at once
READ = 1024  # rows whose content is in memory
PROCESSES = 8  # at most: the cores that are there may be more than a container may use
ALONE = 2000  # rows that are done sooner than processes start

Look = Callable[[Sequence[Sequence[Any]]], Iterator[Array]]


@dataclass(frozen=True)
class ShardSetup:
    """What the shards of every day are made of."""

    config: ClassConfig
    view: View
    lake: str
    events: tables.Table

    def uri(self, day: date) -> str:
        """Return where a day's partition lies: its name is a hash of the contents and of what networks see of them."""
        made_of = [*self.view.made_of, *self.view.kept, self.events.partition(day).sha256]
        return tables.partition_uri(self.lake, self.config.name, "features", day, storage.fingerprint(made_of))


@dataclass(frozen=True)
class ShardFeatures(base.DailyFeatures):
    """What networks see, by day."""

    setup: ShardSetup

    def uri(self, day: date) -> str:
        return self.setup.uri(day)

    def write(self, missing: dict[date, str]) -> dict[date, tables.Partition]:
        return write(self.setup, missing)

    def details(self, _: list[tables.Partition]) -> FeatureDetails:
        task = self.setup.config.task
        return FeatureDetails({"seen": kinds.candidates(task.kind).preprocessing(task).feature_settings})


class FeaturesTask(base.FeaturesTask):
    """A shard of pixels or tokens a day."""

    def features(self, setup: FeatureSetup[ClassConfig]) -> ShardFeatures:
        task = setup.config.task
        return ShardFeatures(ShardSetup(setup.config, kinds.views(task.kind).view(task), setup.lake, setup.events))


def write(setup: ShardSetup, missing: dict[date, str]) -> dict[date, tables.Partition]:
    """Make and write the missing days, each complete before the next; a run that is ended resumes after the last.

    Args:
        setup: what they are made of.
        missing: day -> URI of its partition.
    """
    with looking(setup.view, sum(setup.events.partition(day).rows for day in missing)) as look:
        return {day: _day(setup, day, uri, look) for day, uri in missing.items()}


@contextmanager
def looking(view: View, count: int) -> Iterator[Look]:
    """Give what sees contents, a column each, in chunks: a process for each core, up to `PROCESSES`, or this one."""
    if count <= ALONE:
        yield lambda contents: map(view.see, *map(cut_chunks, contents))
        return
    # not forked: libraries here have threads
    with ProcessPoolExecutor(min(len(os.sched_getaffinity(0)), PROCESSES), get_context("spawn")) as pool:
        yield lambda contents: pool.map(view.see, *map(cut_chunks, contents))


def cut_chunks(contents: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Cut a column's contents into what is looked at together."""
    return (contents[first : first + CHUNK] for first in range(0, len(contents), CHUNK))


def _day(setup: ShardSetup, day: date, uri: str, look: Look) -> tables.Partition:
    part, empty = setup.events.partition(day), setup.view.empty
    with tempfile.TemporaryDirectory() as folder:
        draft = Path(folder) / "shard.npy"
        shard = np.lib.format.open_memmap(draft, "w+", empty.dtype, (part.rows, *empty.shape[1:]))
        rows = pd.concat(list(_fill(setup, part, look, shard)), ignore_index=True)
        shard.flush()
        # before the partition, by whose sidecar both are complete
        storage.copy(str(draft), shards.shard_uri(uri))
    log.info("features: %s, %d rows", day, part.rows)
    return tables.write_partition(uri, day, rows, {})


def _fill(setup: ShardSetup, part: tables.Partition, look: Look, shard: Array) -> Iterator[pd.DataFrame]:
    """Fill in what networks see of a day; yield who its rows are, some at a time."""
    kept, done = list_kept(setup.config, setup.view), 0
    # of a day without rows there is no batch, and its partition needs columns all the same
    columns = [*dict.fromkeys([*kept, *setup.view.columns])]
    batches = storage.read_batches(part.uri, columns, READ) if part.rows else [storage.read_frame(part.uri, columns)]
    for events in batches:
        hashes: list[str] = []
        for seen in look([events[column].tolist() for column in setup.view.columns]):
            shard[done : done + len(seen)] = seen
            hashes += setup.view.identify(seen)
            done += len(seen)
        yield events[kept].assign(content=pd.Series(hashes, events.index, dtype=str))


def list_kept(config: ClassConfig, view: View) -> list[str]:
    """Return the columns that say who a row is, the label last: all but contents that nobody is shown."""
    apart = {"event_id", "event_time", "label", *view.columns} - {*view.kept}
    return ["event_id", "event_time", *(role for role in config.columns.roles if role not in apart), "label"]
