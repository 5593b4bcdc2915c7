"""What networks are fed with: a shard a day, a NumPy file beside the day's partition, mapped into memory."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from itertools import accumulate
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from nightshift import storage
from nightshift.contracts.preprocessing import Preprocessing
from nightshift.contracts.tables import Partition, Table
from nightshift.data.splits import Days, Fold, apart, rows_of
from nightshift.items import metrics
from nightshift.items.labels import decode
from nightshift.items.metrics import Labels
from nightshift.runtime.errors import UserError

SUFFIX = ".npy"

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Shards:
    """The rows of some days, one after the other.

    Attributes:
        arrays: a day each, (rows of the day, ...); of one dtype and one shape but for the rows.
    """

    arrays: Sequence[Array]

    @classmethod
    def map_days(cls, table: Table, days: Iterable[date]) -> Self:
        """Map the shards of some days of a features table.

        Raises:
            UserError: when one is missing.
        """
        return cls([map_shard(table.partition(day), table.shared) for day in days])

    def __len__(self) -> int:
        return self._starts[-1]

    @property
    def width(self) -> int:
        """Bytes of a row."""
        return int(self.arrays[0].itemsize * np.prod(self.arrays[0].shape[1:]))

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of a row's parts, where it has several."""
        return self.arrays[0].dtype.names or ()

    def select(self, field: str) -> Self:
        """Return one part of every row."""
        return type(self)([array[field] for array in self.arrays])

    def take(self, rows: npt.NDArray[np.int64]) -> Array:
        """Return some rows by their numbers, (n,), in that order; (n, ...)."""
        which = np.searchsorted(self._starts, rows, side="right") - 1
        gathered = np.empty((len(rows), *self.arrays[0].shape[1:]), self.arrays[0].dtype)
        for number in np.unique(which):
            here = which == number
            gathered[here] = self.arrays[number][rows[here] - self._starts[number]]
        return gathered

    @cached_property
    def _starts(self) -> list[int]:
        return list(accumulate(map(len, self.arrays), initial=0))


@dataclass(frozen=True)
class ItemTable:
    """Images or texts of some days.

    Attributes:
        rows: who they are: `event_id`, `event_time`, `label` (null until it is known), `content` (hash of what a row
            holds) and, where the use case has groups, `group`; numbered from 0.
        shards: what networks see of them, in the same order.
    """

    rows: pd.DataFrame
    shards: Shards

    @classmethod
    def read(cls, table: Table, days: Days) -> Self:
        """Read some days of a features table."""
        return cls(table.read(days), Shards.map_days(table, days))

    def training_rows(self, fold: Fold) -> pd.DataFrame:
        """Return a fold's training rows.

        Raises:
            UserError: when there are none, or one has no label although it is due.
        """
        return require_labels(rows_of(self.rows, fold.train), fold.train)

    def holdout(self, fold: Fold) -> pd.DataFrame:
        """Return those of a fold's test rows that have nothing in common with its training rows.

        Raises:
            UserError: when there are none, or one has no label although it is due.
        """
        return require_labels(apart(rows_of(self.rows, fold.test), rows_of(self.rows, fold.train)), fold.test)

    def inputs(self, rows: pd.DataFrame) -> Array:
        """Return what networks see of some of the rows."""
        return self.shards.take(rows.index.to_numpy())


def check(table: Table, preprocessing: Preprocessing, advice: str = "train again") -> None:
    """Refuse features that a model cannot take, with some advice: they were made for other pixels or tokens.

    Raises:
        UserError: when they were.
    """
    details = table.details.get("seen")
    if details != preprocessing.feature_settings:
        raise UserError(
            f"the features are of {details}, and the model takes {preprocessing.feature_settings}; {advice}"
        )


def require_labels(rows: pd.DataFrame, days: Days) -> pd.DataFrame:
    """Return rows that can train or judge a model as they are.

    Raises:
        UserError: when there are none, or one has no label.
    """
    unknown = int(rows["label"].isna().sum())
    if unknown:
        raise UserError(
            f"{days}: {unknown} rows have no label although it is due; bring them, run again from ingestion, "
            "or raise quarantine.max_share to leave such rows out"
        )
    if rows.empty:
        raise UserError(
            f"{days}: no rows are left that share neither group nor content with the training days; "
            "check columns.group, or choose another --date"
        )
    return rows


def shard_uri(partition: str) -> str:
    """Return where the shard of a partition lies, by the partition's URI."""
    return f"{partition}{SUFFIX}"


def map_shard(partition: Partition, shared: str = "") -> Array:
    """Return a day's shard, mapped into memory; of an object store it is a copy that takes up disk until it is freed.

    Args:
        partition: the day.
        shared: folder by which the processes of a machine have one copy; empty: this one has its own.

    Raises:
        UserError: when it is missing, or does not have the partition's rows.
    """
    uri = shard_uri(partition.uri)
    with storage.on_disk(uri, shared) as path:
        try:
            array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise UserError(f"{uri} cannot be read ({error}); delete {partition.uri}.json and run again") from None
    if len(array) != partition.rows:
        rows = f"{len(array):,} rows, its partition {partition.rows:,}"
        raise UserError(f"{uri} has {rows}; delete {partition.uri}.json and run again")
    return array


def labels(rows: pd.DataFrame, classes: Sequence[str], is_multilabel: bool = False) -> Labels:
    """Return the number of each row's class, -1 without one, (n,), or which classes it has, (n, classes)."""
    if is_multilabel:
        return decode(rows["label"], classes)
    numbers = {name: number for number, name in enumerate(classes)}
    return np.array([numbers.get(label, -1) for label in rows["label"]], dtype=np.int64)


def count_classes(rows: pd.DataFrame, classes: Sequence[str], is_multilabel: bool = False) -> list[int]:
    """Return how many rows each class has."""
    counts: list[int] = metrics.spread(labels(rows, classes, is_multilabel), len(classes)).sum(0).tolist()
    return counts
