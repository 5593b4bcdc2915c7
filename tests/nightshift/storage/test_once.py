"""What the processes of a machine read together; threads stand for them, which hold their files and locks apart too."""

import io
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from threading import Barrier
from typing import ClassVar, TypeVar

import fsspec
import numpy as np
import pandas as pd
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from nightshift import storage
from nightshift.contracts import tables
from nightshift.contracts.tables import Table
from nightshift.items.shards import Shards, shard_uri
from nightshift.storage import once

T = TypeVar("T")

DAYS = [date(2024, 3, 1), date(2024, 3, 2), date(2024, 3, 3)]
PROCESSES = 4


class Counted(MemoryFileSystem):
    """A store that counts the bytes that are read of each file."""

    protocol = "counted"
    store: ClassVar[dict[str, object]] = {}
    pseudo_dirs: ClassVar[list[str]] = [""]
    read: ClassVar[Counter[str]] = Counter()

    def cat_file(self, path: str, *arguments: object, **options: object) -> bytes:
        content: bytes = super().cat_file(path, *arguments, **options)
        self.read[path] += len(content)
        return content

    def get_file(self, rpath: str, lpath: str, **_: object) -> None:
        Path(lpath).write_bytes(self.cat_file(rpath))


@pytest.fixture
def table() -> Table:
    """Three days in a store: times with a zone, texts and numbers that may be missing, bytes, and a shard each."""
    fsspec.register_implementation("counted", Counted, clobber=True)
    Counted.store.clear()
    parts = [_write_day(number, day) for number, day in enumerate(DAYS)]
    Counted.read.clear()
    return Table("features", parts)


def _write_day(number: int, day: date) -> tables.Partition:
    uri, random = f"counted://lake/{day}.parquet", np.random.default_rng(number)
    rows = pd.DataFrame(
        {
            "event_time": pd.date_range(day, periods=50, freq="min", unit="us", tz="UTC"),
            "label": pd.Series(random.choice([0.0, 1.0, np.nan], 50)),
            "text": pd.Series(random.choice(["a", "b", None], 50), dtype=str),
            "tokens": pd.Series([random.bytes(8) for _ in range(50)], dtype=object),
            "amount": random.random(50).astype(np.float32),
        }
    )
    shard = io.BytesIO()
    np.save(shard, random.integers(0, 255, (50, 4), np.uint8))
    storage.write_bytes(shard_uri(uri), shard.getvalue())
    return tables.write_partition(uri, day, rows, {})


def together(call: Callable[[], T]) -> list[T]:
    """What processes get that call at the same time."""
    barrier = Barrier(PROCESSES)
    with ThreadPoolExecutor(PROCESSES) as pool:
        return list(pool.map(lambda _: (barrier.wait(), call())[1], range(PROCESSES)))


def test_processes_of_a_machine_read_each_byte_of_a_table_once_and_get_the_rows_of_one_process(table, tmp_path):
    alone, arrays = table.read(DAYS), Shards.map_days(table, DAYS).arrays
    once_each = dict(Counted.read)
    Counted.read.clear()
    shared = Table(table.name, table.partitions, shared=str(tmp_path))

    frames = together(lambda: shared.read(DAYS))
    shards = together(lambda: Shards.map_days(shared, DAYS).arrays)

    assert dict(Counted.read) == once_each
    assert len(once_each) == 2 * len(DAYS)
    for frame in frames:
        pd.testing.assert_frame_equal(frame, alone)
    assert all(np.array_equal(*pair) for mapped in shards for pair in zip(mapped, arrays, strict=True))
    pd.testing.assert_frame_equal(shared.read(DAYS[:1], ["amount"]), table.read(DAYS[:1], ["amount"]))


def test_an_array_is_computed_once_and_mapped_with_its_order_of_axes(tmp_path):
    computed = []

    def compute() -> np.ndarray:
        computed.append(1)
        return np.asfortranarray(np.arange(12, dtype=np.float32).reshape(3, 4))

    arrays = together(lambda: once.compute_array(str(tmp_path), ["matrix"], compute))

    assert len(computed) == 1
    assert all(np.array_equal(array, compute()) and array.flags.f_contiguous for array in arrays)


def test_what_one_process_could_not_write_the_next_one_writes(tmp_path):
    def fail(draft: str) -> None:
        Path(draft).write_text("half")
        raise OSError("No space left on device")

    with pytest.raises(OSError, match="No space left"):
        once.write_file(str(tmp_path), "a", fail)
    path = once.write_file(str(tmp_path), "a", lambda draft: Path(draft).write_text("whole"))
    assert Path(path).read_text() == "whole"
