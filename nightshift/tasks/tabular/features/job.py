"""What the features of every day are made of, and where they lie."""

from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING

from nightshift import storage
from nightshift.config.tabular import TabularConfig
from nightshift.contracts import tables
from nightshift.data.splits import Days, buffer_days, rows_of
from nightshift.runtime.step import log
from nightshift.tabular import frames
from nightshift.tasks.tabular.features import core

if TYPE_CHECKING:
    import pandas as pd

ONE_PASS = 4_000_000  # events that the kernel takes at once, some 300 bytes each


@dataclass(frozen=True)
class TableFeatureJob:
    """What the features of every day are made of.

    Attributes:
        config: the use case.
        lake: root of the tables.
        events: the events by day.
        device: where the windows are computed.
    """

    config: TabularConfig
    lake: str
    events: tables.Table
    device: str

    @property
    def backend(self) -> frames.Backend:
        """The libraries of the device."""
        return frames.backend(self.device)

    def uri(self, day: date) -> str:
        """Return where a day's partition lies: its name is a hash of the events and settings it is made from.

        Device, shards and workers are not part of it, since all of them give the same bits.
        """
        past = [self.events.partition(past).sha256 for past in self.extend_back(Days(day, day))]
        columns = self.config.model_dump(include={"columns": {"numeric", "categorical"}})
        key = storage.fingerprint([core.SCHEMA, self.config.feature_spec.model_dump(mode="json"), columns, past])
        return tables.partition_uri(self.lake, self.config.name, "features", day, key)

    def extend_back(self, days: Days) -> Days:
        """Return these days and those before that their windows reach back to."""
        return Days(days.first - timedelta(days=buffer_days(self.config)), days.last)

    def rows(self, days: Days) -> list[int]:
        """Return how many events each day has."""
        return [self.events.partition(day).rows for day in days]

    def read(self, days: Days) -> "pd.DataFrame":
        """Read the columns of some days' events that features are made of, in order of time."""
        columns = self.config.columns
        events: pd.DataFrame = core.in_order(
            self.events.read(days, [*columns.roles, *columns.numeric, *columns.categorical])
        )
        return events

    def write(self, uri: str, day: date, features: "pd.DataFrame") -> tables.Partition:
        """Write the partition of a day, whose rows are among the features."""
        # cudf hands a column with nulls back as float64
        rows = rows_of(features, Days(day, day)).astype({"label": "Int8"})
        part = tables.write_partition(uri, day, rows, {})
        log.info("features: %s, %d rows", day, part.rows)
        return part
