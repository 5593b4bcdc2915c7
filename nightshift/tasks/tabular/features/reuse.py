"""Columns that the lake has of other declarations: a line that changes computes its own features alone."""

from collections.abc import Iterator, Mapping
from datetime import date
from posixpath import dirname

from nightshift import storage
from nightshift.contracts import tables
from nightshift.contracts.tables import Partition
from nightshift.tasks.tabular.features.job import COLUMNS, Columns, TableFeatureJob


def find_columns(job: TableFeatureJob, missing: Mapping[date, str]) -> Columns:
    """Return feature -> day -> URI of a partition that has it, for the features that all missing days have.

    Args:
        job: what features are made of.
        missing: day -> URI of its partition.
    """
    held = {day: _held_columns(job, day, uri) for day, uri in missing.items()}
    names = set.intersection(*map(set, held.values()))
    return {name: {day: columns[name] for day, columns in held.items()} for name in sorted(names)}


def _held_columns(job: TableFeatureJob, day: date, uri: str) -> dict[str, str]:
    """Return feature -> URI of a partition of the day that has it."""
    keys, held = job.identify_columns(day), dict[str, str]()
    for part in _partitions(dirname(uri)):
        held |= {name: part.uri for name, key in part.details.get(COLUMNS, {}).items() if keys.get(name) == key}
    return held


def _partitions(folder: str) -> Iterator[Partition]:
    for name in storage.names(folder):
        part = tables.find_partition(storage.join(folder, name)) if name.endswith(".parquet") else None
        if part:
            yield part
