"""What the features of every day are made of, and where they lie."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import TYPE_CHECKING

import numpy as np

from nightshift import storage
from nightshift.config.tabular import TableConfig
from nightshift.contracts import tables
from nightshift.contracts.preprocessing import Feature
from nightshift.data.splits import Days, buffer_days, rows_of
from nightshift.runtime.step import log
from nightshift.tabular import declarations, frames
from nightshift.tabular.declarations import EntityGroup
from nightshift.tabular.windows import DAY
from nightshift.tasks.tabular.features import core

if TYPE_CHECKING:
    import pandas as pd

Columns = Mapping[str, Mapping[date, str]]  # feature -> day -> URI of a partition that has it
COLUMNS = "columns"  # a partition's detail: feature -> its identity
ONE_PASS = 4_000_000  # events that the kernel takes at once, some 300 bytes each


@dataclass(frozen=True)
class TableFeatureJob:
    """What the features of every day are made of.

    Attributes:
        config: the use case.
        lake: root of the tables.
        events: the events by day.
        device: where the windows are computed.
        known: features that other partitions have: they are read, not computed.
    """

    config: TableConfig
    lake: str
    events: tables.Table
    device: str
    known: Columns = field(default_factory=dict)

    @property
    def groups(self) -> list[EntityGroup]:
        """The features that are computed, by entity."""
        groups = declarations.entity_groups(self.config.feature_spec)
        left = [[feature for feature in group.features if feature.name not in self.known] for group in groups]
        return [replace(group, features=tuple(some)) for group, some in zip(groups, left, strict=True) if some]

    @property
    def backend(self) -> frames.Backend:
        """The libraries of the device."""
        return frames.backend(self.device)

    def uri(self, day: date) -> str:
        """Return where a day's partition lies: its name is a hash of the events and settings it is made from.

        Device, shards and workers are not part of it, since all of them give the same bits.
        """
        past = Days(day - timedelta(days=buffer_days(self.config)), day)
        hashes = [self.events.partition(past).sha256 for past in past]
        columns = self.config.model_dump(include={"columns": {"numeric", "categorical"}})
        key = storage.fingerprint([core.SCHEMA, self.config.feature_spec.model_dump(mode="json"), columns, hashes])
        return tables.partition_uri(self.lake, self.config.name, "features", day, key)

    def extend_back(self, days: Days) -> Days:
        """Return these days and those before that the windows which are computed reach back to."""
        return extend_back(days, max((group.longest_reach for group in self.groups), default=0))

    def rows(self, days: Days) -> list[int]:
        """Return how many events each day has."""
        return [self.events.partition(day).rows for day in days]

    def read(self, days: Days, names: Sequence[str] = ()) -> "pd.DataFrame":
        """Read some days' events in order of time: these columns, or all that features are made of."""
        columns = self.config.columns
        wanted = names or [*columns.roles, *columns.numeric, *columns.categorical]
        events: pd.DataFrame = core.in_order(self.events.read(days, [*wanted]))
        return events

    def write(self, uri: str, day: date, features: "pd.DataFrame") -> tables.Partition:
        """Write the partition of a day, whose rows are among the features; those that are known are read here."""
        # cudf hands a column with nulls back as float64
        rows = rows_of(features, Days(day, day)).astype({"label": self.config.LABEL_TYPE})
        part = tables.write_partition(uri, day, self._add_known(day, rows), {COLUMNS: self.identify_columns(day)})
        log.info("features: %s, %d rows", day, part.rows)
        return part

    def identify_columns(self, day: date) -> dict[str, str]:
        """Return feature -> a hash of its declaration, and of the days' events that its windows reach back to."""
        groups = declarations.entity_groups(self.config.feature_spec)
        return {feature.name: self._identify(group, feature, day) for group in groups for feature in group.features}

    def _identify(self, group: EntityGroup, feature: Feature, day: date) -> str:
        past = extend_back(Days(day, day), group.reach(feature))
        hashes = [self.events.partition(past).sha256 for past in past]
        decimals = declarations.decimals(self.config.feature_spec, feature.column or "")
        declared = [core.SCHEMA, feature.model_dump(mode="json"), group.lag(feature), decimals]
        return storage.fingerprint([declared, hashes])[:16]

    def _add_known(self, day: date, rows: "pd.DataFrame") -> "pd.DataFrame":
        """Return a day's rows with the features that other partitions have, in the order of the inputs."""
        names: dict[str, list[str]] = {}
        for name, uris in self.known.items():
            names.setdefault(uris[day], []).append(name)
        for uri, columns in names.items():
            held = storage.read_frame(uri, ["event_id", *columns])
            assert np.array_equal(held["event_id"], rows["event_id"]), "both are of the same events"
            rows = rows.assign(**{name: held[name].to_numpy() for name in columns})
        return core.order_columns(rows, self.config) if names else rows


def extend_back(days: Days, reach: int) -> Days:
    """Return days and those before that windows reach back to which begin a number of microseconds before an event."""
    return Days(days.first - timedelta(days=-(-reach // DAY)), days.last)
