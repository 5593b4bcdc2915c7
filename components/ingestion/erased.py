"""Entities that were erased: their rows are left out of every source, and taken out of the days that are in the lake.

A day is judged row by row, so what is left of a partition is what ingestion would have made without the rows. Where a
row was judged beside others (a repeated id, late labels, the type of an id), the next run makes the day again instead.
"""

import io
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from components.ingestion import repeats
from components.ingestion.sources.protocol import EventSource, RawRows
from nightshift import storage
from nightshift.config import Config
from nightshift.config.columns import Holds
from nightshift.contracts.erasure import ErasureList
from nightshift.contracts.tables import Partition
from nightshift.erasure import listing, tables
from nightshift.erasure.subject import DataSubject

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from components.ingestion.core import SplitRows

# rules that compare a row with others of its day
RELATIONAL = {"duplicate_id", "duplicate_content", "near_duplicate", "missing_label"}


@dataclass(frozen=True)
class WithoutErased:
    """A source without the rows of erased entities. The hash of a day stays: tombstones say which partition it is.

    Attributes:
        source: with all rows.
        erasures: who was erased.
        columns: role -> the user's column, of columns of ids.
    """

    has_fixed_dtypes: ClassVar = False
    source: EventSource
    erasures: ErasureList
    columns: Mapping[str, str]

    @property
    def details(self) -> Mapping[str, Any]:
        """Those of the source."""
        return self.source.details

    def name(self, day: date) -> str:
        """Return what to call the day's rows in a message."""
        return self.source.name(day)

    def absence(self, day: date) -> str:
        """Return that there is nothing for a day, for a message."""
        return self.source.absence(day)

    def has(self, day: date) -> bool:
        """Return whether there is anything for a day."""
        return self.source.has(day)

    def read(self, day: date) -> RawRows:
        """Return a day's rows; those of erased entities go when they are loaded."""
        raw = self.source.read(day)
        return replace(raw, load=partial(self._load, raw))

    def _load(self, raw: RawRows) -> "pd.DataFrame":
        frame = raw.load()
        return frame[~self._find_rows(frame)].reset_index(drop=True)

    def _find_rows(self, frame: "pd.DataFrame") -> "np.ndarray[Any, np.dtype[np.bool_]]":
        import numpy as np

        from nightshift.tasks.columns import canonical

        own = np.zeros(len(frame), bool)
        for role in {entity.role for entity in self.erasures.erased}:
            if (name := self.columns.get(role)) in frame:
                ids = canonical(frame[name])
                own |= ids.isin([value for value in ids.dropna().unique() if self._is_erased(role, value)]).to_numpy(
                    bool
                )
            for lines in {*tables.LINES} & {*frame.columns}:
                own |= np.array([self._names_erased(role, line) for line in frame[lines]], bool)
        return own

    def _names_erased(self, role: str, line: object) -> bool:
        words = tables.FIELDS.findall(line) if isinstance(line, str) else ()
        return any(self._is_erased(role, word) for word in words)

    def _is_erased(self, role: str, value: str) -> bool:
        return listing.digest(self.erasures.salt, role, value) in self._digests

    @property
    def _digests(self) -> set[str]:
        return {entity.digest for entity in self.erasures.erased}


@dataclass(frozen=True)
class LakeDay:
    """A partition of events with its quarantine, as bytes.

    Attributes:
        partition: the events.
        events: their Parquet file.
        quarantine: the file of its bad rows, None without.
    """

    partition: Partition
    events: bytes
    quarantine: bytes | None

    @classmethod
    def read(cls, partition: Partition) -> "LakeDay":
        """Read a day from the lake."""
        # the lake may have been moved since
        uri = _beside(partition.uri)
        # its retention may have ended sooner
        has_quarantine = partition.details["quarantine_uri"] is not None and storage.exists(uri)
        return cls(partition, storage.read_bytes(partition.uri), storage.read_bytes(uri) if has_quarantine else None)


def _beside(uri: str) -> str:
    """Return where the quarantine of a partition of events lies."""
    lake, _, day, name = uri.rsplit("/", 3)
    return storage.join(lake, "quarantine", day, name)


@dataclass(frozen=True)
class RewrittenDay:
    """A partition of events without an entity's rows.

    Attributes:
        partition: as it is kept, for the tables that name it.
        is_whole: whether a run on a source without the rows would have made the same.
    """

    partition: Partition
    is_whole: bool = field(default=True)


def rewrite(day: LakeDay, uri: str, subject: DataSubject, config: Config) -> RewrittenDay:
    """Write a partition of events anew, with its quarantine and its keys, without an entity's rows.

    Args:
        day: with the rows.
        uri: where it is to lie.
        subject: the entity.
        config: the use case as it is now.
    """
    good = tables.without(day.events, subject)
    bad = day.quarantine and tables.without(day.quarantine, subject)
    frame, rejected = tables.read(good).to_pandas(), tables.read(bad).to_pandas() if bad else None
    quarantine = None
    if bad and rejected is not None and len(rejected):
        storage.write_bytes(quarantine := _beside(uri), bad)
    details = day.partition.details | {"quarantine_uri": quarantine}
    is_whole = False
    if counted := _count(frame, rejected, config, details):
        details, is_whole = details | counted.details, counted.is_whole
    storage.write_bytes(uri, good)
    repeats.write(uri, frame["event_id"])
    partition = replace(day.partition, uri=uri, rows=len(frame), sha256=storage.sha256(good), details=details)
    storage.write_json(f"{uri}.json", asdict(partition))
    return RewrittenDay(partition, is_whole)


@dataclass(frozen=True)
class CountedRows:
    """What a partition says of its rows, and whether it would say so without a look at rows that are gone."""

    details: dict[str, Any]
    is_whole: bool


def _count(
    good: "pd.DataFrame", bad: "pd.DataFrame | None", config: Config, before: Mapping[str, Any]
) -> CountedRows | None:
    """Return what is left of the counts; None of a partition that was made by another config, or has lost rows."""
    from components.ingestion import core

    names = config.columns.names
    if bad is None and before["quarantined"]:  # its retention has ended: what is known of it stays
        return None
    if {*good} != {column.role for column in config.columns.read} or (bad is not None and not {*names} <= {*bad}):
        return None
    split = core.rejoin(good, bad, config, before["id_types"])
    unlabeled = before["unlabeled"] and split.unlabeled_rows
    are_due = bool(before["unlabeled"] or before["version"]["is_complete"])
    version = before["version"] | {"labels": split.labels, "is_complete": are_due and not unlabeled}
    is_alone = before["replaced"] is None and not unlabeled and not RELATIONAL & {*split.rejected_rows}
    return CountedRows(
        split.counts | {"unlabeled": unlabeled, "version": version}, is_alone and _has_same_types(split, config)
    )


def _has_same_types(split: "SplitRows", config: Config) -> bool:
    """Return whether what is left would be read with the same types of ids."""
    import pandas as pd

    from nightshift.tasks import columns

    texts = [role for role, kind in split.id_types.items() if kind == "text"]
    names = config.columns.holding(Holds.IDENTIFIER)
    left = {role: [columns.canonical(split.good[role]), columns.canonical(split.bad[names[role]])] for role in texts}
    return not any(columns.whole(pd.concat(ids, ignore_index=True).replace("", pd.NA)).all() for ids in left.values())


def count_keys(data: bytes, subject: DataSubject) -> int:
    """Return how many of a partition's keys are of an entity's events."""
    import numpy as np
    import pandas as pd

    ids = pd.Series([*subject.events], dtype=object)
    whole = ids[ids.str.fullmatch(r"-?\d{1,18}").astype(bool)].astype("int64") if len(ids) else ids
    own = [repeats.keys(part) for part in (whole, ids) if len(part)]
    return int(np.isin(np.load(io.BytesIO(data)), np.concatenate(own)).sum()) if own else 0
