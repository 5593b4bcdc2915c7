"""What is known of a shop's day when it opens: the weekday, and the counts that have arrived by then."""

from dataclasses import dataclass
from datetime import timedelta

import numpy as np

from nightshift import storage
from nightshift.contracts import tables
from nightshift.data.splits import Days, buffer_days, rows_of
from nightshift.tasks.base import features as base


@dataclass(frozen=True)
class ShopFeatures(base.DailyFeatures):
    setup: base.FeatureSetup

    @property
    def windows(self):
        return {f"log_mean_{days}d": days for days in self.setup.config.task.windows_days}

    def uri(self, day):
        config = self.setup.config
        past = [self.setup.events.partition(needed).sha256 for needed in self._needed(day)]
        key = storage.fingerprint([self.windows, config.label_delay_days, past])
        return tables.partition_uri(self.setup.lake, config.name, "features", day, key)

    def write(self, missing):
        return {day: tables.write_partition(uri, day, self._computed(day), {}) for day, uri in missing.items()}

    def details(self, _):
        return base.FeatureDetails({"numeric": [*self.windows, "promo"], "categorical": ["weekday"]})

    def _needed(self, day):
        return Days(day - timedelta(days=buffer_days(self.setup.config)), day)

    def _computed(self, day):
        events = self.setup.events.read(self._needed(day))
        rows = rows_of(events, Days(day, day)).assign(weekday=f"{day:%A}")
        last = day - timedelta(days=self.setup.config.label_delay_days + 1)  # whose counts are known by now
        for name, days in self.windows.items():
            past = rows_of(events, Days(last - timedelta(days=days - 1), last)).dropna(subset="label")
            means = past["label"].astype(float).groupby(past["shop"]).mean()
            rows[name] = np.log1p(rows["shop"].map(means).fillna(means.mean()).fillna(0))
        return rows.reset_index(drop=True)


class FeaturesTask(base.FeaturesTask):
    def features(self, setup):
        return ShopFeatures(setup)
