"""Features of more events than one pass takes: sharded by entity, the kernel in each shard, joined by event.

Windows of different entities need different shards, so each entity has its own. Three kinds of tasks follow one
another: `split` reads a batch of days once and leaves what each shard needs of it; `compute` runs the kernel over all
that a shard has; `join` puts a batch's windows beside its events and writes its days. A task reads files and writes
files, so it may run in any process that reaches the lake, and again after that process was killed. Which shards and
batches there are changes no bit.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property, partial
from itertools import accumulate, groupby, product

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
from pyarrow import ipc

from nightshift import storage
from nightshift.contracts.tables import Partition
from nightshift.data.splits import Days
from nightshift.runtime.errors import UnavailableError, UserError
from nightshift.runtime.step import log
from nightshift.tabular import frames
from nightshift.tabular.declarations import EntityGroup
from nightshift.tasks.tabular.features import core
from nightshift.tasks.tabular.features.job import ONE_PASS, TableFeatureJob
from nightshift.tasks.tabular.features.workers import TaskPool


@dataclass(frozen=True)
class Sizes:
    """How many events are in memory at once.

    Attributes:
        shard: of one pass of the kernel; an entity is never divided.
        batch: of consecutive days; a day is never divided.
    """

    shard: int = ONE_PASS
    batch: int = 2_000_000


@dataclass(frozen=True)
class Batch:
    """Consecutive days that are read together.

    Attributes:
        days: the days.
        missing: where to write each of them; empty for days that only windows of later ones reach back to.
    """

    days: Days
    missing: Mapping[date, str]


@dataclass(frozen=True)
class Layout:
    """How the work is divided.

    Attributes:
        job: what features are made of.
        folder: URI below which the tasks leave what others need.
        batches: in order of time.
        shards: how many there are of each entity.
    """

    job: TableFeatureJob
    folder: str
    batches: list[Batch]
    shards: int

    @property
    def groups(self) -> list[EntityGroup]:
        """What windows are counted by."""
        return self.job.groups

    def piece(self, kind: str, batch: int, group: int, shard: int) -> str:
        """Return where a batch's share of a shard lies: `events` before the kernel, `windows` after it."""
        return storage.join(self.folder, self.key, f"{kind}-{batch}-{group}-{shard}.arrow")

    @property
    def is_computed(self) -> bool:
        """Whether the windows of all shards are there."""
        batches = [number for number, batch in enumerate(self.batches) if batch.missing]
        pieces = product(["windows"], batches, range(len(self.groups)), range(self.shards))
        there = set(storage.names(storage.join(self.folder, self.key)))
        return all(self.piece(*piece).rpartition("/")[2] in there for piece in pieces)

    def describe(self, by: str) -> None:
        """Log how the work is divided, and among whom."""
        log.info("features: %d batches of days, %d shards an entity, %s", len(self.batches), self.shards, by)

    @cached_property
    def key(self) -> str:
        """What tells these pieces from those of a try with other batches or shards, whose workers may still write."""
        batches = [[batch.days.first, batch.days.last, list(batch.missing.values())] for batch in self.batches]
        return storage.fingerprint([self.shards, batches])[:16]


def write(
    job: TableFeatureJob, missing: Mapping[date, str], folder: str, workers: TaskPool, sizes: Sizes | None = None
) -> dict[date, Partition]:
    """Compute and write the missing days.

    Args:
        job: what features are made of.
        missing: day -> URI of its partition.
        folder: URI for what lies there meanwhile, some 150 bytes per event; it is removed.
        workers: who runs the tasks.
        sizes: how many events are in memory at once.
    """
    layout = divide(job, missing, folder, workers.count, sizes or Sizes())
    numbers = range(len(layout.batches))
    layout.describe(f"{workers.count} workers")
    try:
        workers.run(partial(split, layout), numbers)
        log.info("features: the events are in their shards")
        workers.run(partial(compute, layout), list(product(range(len(layout.groups)), range(layout.shards))))
        log.info("features: the windows of all shards are computed")
        written = workers.run(partial(join, layout), [number for number in numbers if layout.batches[number].missing])
    finally:
        remove(folder)
    return {date.fromisoformat(part.date): part for parts in written for part in parts}


def write_part(layout: Layout, number: int, count: int) -> None:
    """Compute the windows of a part of the shards, for which each part reads the events itself.

    Args:
        layout: the same for every part.
        number: of the part, from 0.
        count: of all parts.
    """
    own = range(number, layout.shards, count)
    layout.describe(f"part {number + 1} of {count}")
    for batch in range(len(layout.batches)):
        split(layout, batch, own)
    for which in product(range(len(layout.groups)), own):
        compute(layout, which)


def join_parts(layout: Layout, missing: Mapping[date, str]) -> dict[date, Partition]:
    """Write the days that are missing still, once all parts are there."""
    numbers = [number for number, batch in enumerate(layout.batches) if missing.keys() & batch.missing.keys()]
    written = [part for number in numbers for part in join(layout, number)]
    return {day: part for part in written if (day := date.fromisoformat(part.date)) in missing}


def divide(job: TableFeatureJob, missing: Mapping[date, str], folder: str, workers: int, sizes: Sizes) -> Layout:
    """Return how the work is divided: no part larger than these sizes, and one or more for each worker."""
    days = job.extend_back(Days(min(missing), max(missing)))
    rows = job.rows(days)
    most = min(sizes.batch, math.ceil(sum(rows) / workers) or 1)
    # a batch ends where the events so far pass the next multiple of its size, and between days that are missing or not
    keyed = zip(days, accumulate(rows, initial=0), strict=False)
    groups = groupby(keyed, key=lambda entry: (entry[1] // most, entry[0] in missing))
    batches = [_batch([day for day, _ in group], missing) for _, group in groups]
    return Layout(job, folder, batches, max(math.ceil(sum(rows) / sizes.shard), workers))


def split(layout: Layout, number: int, own: Sequence[int] | None = None) -> None:
    """Leave what each shard, or each of one's own, needs of a batch's events."""
    needed = {column for group in layout.groups for column in group.columns}
    events = layout.job.read(layout.batches[number].days, sorted({"event_id", "event_time", *needed}))
    for position, group in enumerate(layout.groups):
        shards = _shards(events[[*group.entity]], layout.shards)
        order = np.argsort(shards, kind="stable")
        ends = np.searchsorted(shards[order], np.arange(layout.shards + 1))
        columns = events[["event_time", *group.columns]].assign(row=np.arange(len(events), dtype="uint32"))
        ordered = columns.take(order)
        for shard in range(layout.shards) if own is None else own:
            _put(layout.piece("events", number, position, shard), ordered.iloc[ends[shard] : ends[shard + 1]])


def compute(layout: Layout, which: tuple[int, int]) -> None:
    """Compute the windows of a shard, a position among the groups and its number, over all batches."""
    group, shard = which
    job = layout.job
    pieces = [_get(layout.piece("events", number, group, shard)) for number in range(len(layout.batches))]
    ends = list(accumulate(map(len, pieces), initial=0))
    events = pd.concat(pieces, ignore_index=True)
    pieces.clear()
    backend = job.backend
    computed = core.compute_group(layout.groups[group], backend.from_host(events), job.config, backend)
    columns = backend.to_host(backend.frame(computed)).assign(row=events["row"])
    for number, batch in enumerate(layout.batches):
        if batch.missing:
            _put(layout.piece("windows", number, group, shard), columns.iloc[ends[number] : ends[number + 1]])


def join(layout: Layout, number: int) -> list[Partition]:
    """Write the missing days of a batch: its events with their windows."""
    job, batch = layout.job, layout.batches[number]
    events = job.read(batch.days)
    groups = range(len(layout.groups))
    columns = {name: values for group in groups for name, values in _windows(layout, number, group, len(events))}
    features = core.join_windows(events, columns, job.config, frames.backend("cpu"))
    return [job.write(uri, day, features) for day, uri in batch.missing.items()]


def remove(folder: str) -> None:
    """Remove a folder, as far as that is possible: what else went wrong is what has to be said."""
    try:
        storage.remove_folder(folder)
    except (UserError, UnavailableError) as error:
        log.warning("features: %s is left to nightshift gc: %s", folder, error)


def _batch(days: list[date], missing: Mapping[date, str]) -> Batch:
    return Batch(Days(days[0], days[-1]), {day: missing[day] for day in days if day in missing})


def _shards(keys: pd.DataFrame, shards: int) -> npt.NDArray[np.unsignedinteger]:
    """Return the shard of each row: equal keys come to the same one, on every machine."""
    # a narrow type makes NumPy's stable sort a radix sort
    return (pd.util.hash_pandas_object(keys, index=False).to_numpy() % shards).astype(np.min_scalar_type(shards))


def _windows(layout: Layout, number: int, group: int, rows: int) -> Iterator[tuple[str, npt.NDArray[np.float64]]]:
    """Return a group's columns of a batch, in the order of its rows."""
    pieces = pd.concat(
        [_get(layout.piece("windows", number, group, shard)) for shard in range(layout.shards)], ignore_index=True
    )
    assert len(pieces) == rows, "every event is in one shard"
    positions = pieces.pop("row").to_numpy()
    for name in pieces:
        column = np.empty(rows)
        column[positions] = pieces[name].to_numpy()
        yield str(name), column


def _put(uri: str, piece: pd.DataFrame) -> None:
    table, sink = pa.Table.from_pandas(piece, preserve_index=False), pa.BufferOutputStream()
    with ipc.new_file(sink, table.schema, options=ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(table)
    storage.write_bytes(uri, sink.getvalue().to_pybytes())


def _get(uri: str) -> pd.DataFrame:
    frame: pd.DataFrame = ipc.open_file(storage.arrow_file(storage.read_bytes(uri))).read_pandas()
    return frame
