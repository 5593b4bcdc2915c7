"""What is known of a shop's day when it opens: the weekday, and the counts that have arrived by then."""

from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np
import pandas as pd

from nightshift import storage
from nightshift.contracts import tables
from nightshift.splits import Days, buffer_days, rows_of
from nightshift.tasks.protocol import FeatureDetails, FeatureSetup

SCHEMA = 1
KEYS = ["event_id", "event_time", "terminal", "label"]


@dataclass(frozen=True)
class ShopFeatures:
    setup: FeatureSetup

    @property
    def windows(self) -> dict[str, int]:
        return {f"log_mean_{days}d": days for days in self.setup.config.task.windows_days}

    def uri(self, day: date) -> str:
        config, events = self.setup.config, self.setup.events
        past = [events.partition(each).sha256 for each in self._needed(day)]
        key = storage.fingerprint([SCHEMA, self.windows, config.label_delay_days, config.columns.numeric, past])
        return tables.partition_uri(self.setup.lake, config.name, "features", day, key)

    def write(self, missing: dict[date, str]) -> dict[date, tables.Partition]:
        return {day: tables.write_partition(uri, day, self._computed(day), {}) for day, uri in missing.items()}

    def details(self, _: list[tables.Partition]) -> FeatureDetails:
        numeric = [*self.windows, *self.setup.config.columns.numeric]
        return FeatureDetails({"numeric": numeric, "categorical": ["weekday"]})

    def _needed(self, day: date) -> Days:
        return Days(day - timedelta(days=buffer_days(self.setup.config)), day)

    def _computed(self, day: date) -> pd.DataFrame:
        config, events = self.setup.config, self.setup.events.read(self._needed(day))
        rows = rows_of(events, Days(day, day))[[*KEYS, *config.columns.numeric]].assign(weekday=f"{day:%A}")
        last = day - timedelta(days=config.label_delay_days + 1)  # a count is known so many days after its own
        for name, days in self.windows.items():
            past = rows_of(events, Days(last - timedelta(days=days - 1), last)).dropna(subset="label")
            means = past["label"].astype(float).groupby(past["terminal"]).mean()
            rows[name] = np.log1p(rows["terminal"].map(means).fillna(means.mean()).fillna(0))
        return rows.reset_index(drop=True)


def features(setup: FeatureSetup) -> ShopFeatures:
    return ShopFeatures(setup)
