"""What is known of a row when its day begins: the weekday, and the labels of its series that have arrived by then.

The averages are over rows of days whose labels are due, `label_delay_days` before; a series without any has those of
all series.
"""

import functools
from dataclasses import dataclass
from datetime import date, timedelta

import pandas as pd

from nightshift import storage
from nightshift.config.regression import RegressionConfig
from nightshift.contracts import tables
from nightshift.contracts.tables import Partition
from nightshift.data.splits import Days, buffer_days, rows_of
from nightshift.tasks.base import features as base

SCHEMA = 1  # raise it when the same events come to other features
LAST, WEEKDAY_MEAN, WEEKDAY = "label_last", "label_weekday_mean", "day_of_week"
SEPARATOR = "\x1f"  # between the parts of a series' name
ALL = "all rows"  # the series where the config names none


def name_mean(days: int) -> str:
    """Return the name of the mean over some days."""
    return f"label_mean_{days}d"


def name_series(rows: pd.DataFrame, config: RegressionConfig) -> pd.Series:
    """Return the name of each row's series, (n,)."""
    if not config.columns.series:
        return pd.Series(ALL, rows.index)
    first, *others = (rows[column].astype("string") for column in config.columns.series)
    series: pd.Series = functools.reduce(lambda name, part: name + SEPARATOR + part, others, first)
    return series


@dataclass(frozen=True)
class PastLabels(base.DailyFeatures):
    """The features of each day."""

    setup: base.FeatureSetup[RegressionConfig]

    def uri(self, day: date) -> str:
        config = self.setup.config
        past = [self.setup.events.partition(needed).sha256 for needed in self._needed(day)]
        key = storage.fingerprint(
            [SCHEMA, config.task.windows_days, config.columns.series, config.label_delay_days, past]
        )
        return tables.partition_uri(self.setup.lake, config.name, "features", day, key)

    def write(self, missing: dict[date, str]) -> dict[date, Partition]:
        events = self.setup.events.read(Days(self._needed(min(missing)).first, max(missing)))
        events = events.assign(series=name_series(events, self.setup.config))
        return {
            day: tables.write_partition(uri, day, self._compute(day, events).drop(columns="series"), {})
            for day, uri in missing.items()
        }

    def details(self, parts: list[Partition]) -> base.FeatureDetails:
        config, means = self.setup.config, [name_mean(days) for days in self.setup.config.task.windows_days]
        numeric = [LAST, *means, WEEKDAY_MEAN, *config.columns.numeric]
        return base.FeatureDetails({"numeric": numeric, "categorical": [WEEKDAY, *config.columns.categorical]})

    def _needed(self, day: date) -> Days:
        return Days(day - timedelta(days=buffer_days(self.setup.config)), day)

    def _compute(self, day: date, events: pd.DataFrame) -> pd.DataFrame:
        config = self.setup.config
        rows = rows_of(events, Days(day, day)).reset_index(drop=True).assign(**{WEEKDAY: f"{day:%A}"})
        last = day - timedelta(days=config.label_delay_days + 1)  # whose labels are known by now
        known = rows_of(events, Days(last - timedelta(days=config.longest_window_days - 1), last))
        known = known[known["label"].notna()]
        known = known.assign(label=known["label"].astype(float))
        columns = {name_mean(days): self._mean(known, last, days) for days in config.task.windows_days}
        columns[LAST] = known.groupby("series")["label"].last()
        same = known[known["event_time"].dt.weekday == day.weekday()]
        columns[WEEKDAY_MEAN] = same.groupby("series")["label"].mean()
        usual = known.groupby("series")["label"].mean()
        for name, column in columns.items():
            own = rows["series"].map(column).astype(float)
            rows[name] = own.fillna(rows["series"].map(usual)).fillna(known["label"].mean()).fillna(0.0)
        return rows

    @staticmethod
    def _mean(known: pd.DataFrame, last: date, days: int) -> pd.Series:
        past = rows_of(known, Days(last - timedelta(days=days - 1), last))
        means: pd.Series = past.groupby("series")["label"].mean()
        return means


class FeaturesTask(base.FeaturesTask):
    """The weekday, and means of the labels that are known."""

    def features(self, setup: base.FeatureSetup[RegressionConfig]) -> PastLabels:
        return PastLabels(setup)
