"""Which days train, validate and test for a logical date, and which rows of them count.

Protocol of the Fraud Detection Handbook: train on `train_days`, wait `label_delay_days` until those
labels are known, test on the next `test_days`. Models are chosen one step earlier, on the days the final
model trains on. In daily mode the test window ends `label_delay_days` before the logical date, since
younger labels are not known yet.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING

from nightshift.contracts.artifact import FoldWindow

if TYPE_CHECKING:
    import pandas as pd

    from nightshift.config import Config


@dataclass(frozen=True)
class Days:
    """A closed range of UTC days."""

    first: date
    last: date

    def __iter__(self) -> Iterator[date]:
        return (self.first + timedelta(days=i) for i in range((self.last - self.first).days + 1))

    def __contains__(self, day: object) -> bool:
        return isinstance(day, date) and self.first <= day <= self.last

    def __str__(self) -> str:
        return f"{self.first} .. {self.last}"


@dataclass(frozen=True)
class Fold:
    """Train on some days, test on later ones, with the label delay between them.

    Attributes:
        train: the training days.
        test: the test days.
        label_delay_days: how long a label takes to arrive.
    """

    train: Days
    test: Days
    label_delay_days: int


@dataclass(frozen=True)
class Plan:
    """Everything the logical date decides.

    Attributes:
        validation: the fold that chooses the model.
        test: the fold that judges the chosen model.
        features: days for which features are needed: those of both folds and the newest of those watched, up to the
            logical date.
        events: days whose events those features need.
        labels_due: last day whose labels must be known.
    """

    validation: Fold
    test: Fold
    features: Days
    events: Days
    labels_due: date

    @property
    def before(self) -> Days:
        """The days just before the chosen model's training: rows it has not seen that are not among those watched."""
        return Days(self.validation.train.first, self.test.train.first - timedelta(days=1))


@dataclass(frozen=True)
class Watched:
    """The days on which a model is watched.

    Attributes:
        newest: the `drift.window_days` up to the logical date.
        labeled: as many days whose labels are due, or that need none, without those the model has seen; empty when it
            has seen all.
    """

    newest: Days
    labeled: Days

    def __iter__(self) -> Iterator[date]:
        return iter(sorted({*self.newest, *self.labeled}))


def last_complete_day(now: datetime) -> date:
    """Return the logical date at a moment (with its zone): the UTC day before the one it lies on."""
    return now.astimezone(UTC).date() - timedelta(days=1)


def plan(config: "Config", logical_date: date) -> Plan:
    """Lay the windows of a run out from its logical date (the last complete UTC day, inclusive)."""
    delay = config.label_delay_days
    retrospective = config.protocol.mode == "retrospective"
    test_last = logical_date if retrospective else logical_date - timedelta(days=delay)
    test = fold(config, test_last)
    # the validation fold tests on the last days that the final model trains on: their labels are known by then
    validation = fold(config, test.train.last)
    features = Days(min(validation.train.first, newest(config, logical_date).first), logical_date)
    events = Days(features.first - timedelta(days=buffer_days(config)), logical_date)
    return Plan(validation, test, features, events, labels_due=test_last)


def buffer_days(config: "Config") -> int:
    """Return how many days of events before a day its features need: the longest window, and its delay."""
    longest = config.longest_window_days
    return longest + config.label_delay_days if longest else 0


def lookback(config: "Config") -> list[tuple[int, str]]:
    """Return what the days of `Plan.events` add up to, in order of time: how many days each key of the config takes."""
    protocol, delay = config.protocol, (config.label_delay_days, "label_delay_days")
    test = (protocol.test_days, "protocol.test_days")
    select = [(protocol.train_days, "protocol.train_days"), delay, (test[0], f"{test[1]} to select on"), delay, test]
    folds = select + ([delay] if protocol.mode == "daily" else [])
    watched = config.drift.window_days
    used = folds if sum(days for days, _ in folds) >= watched else [(watched, "drift.window_days")]
    longest = config.longest_window_days
    past = [(longest, "features"), delay] if longest else []
    return [(days, key) for days, key in past + used if days]


def newest(config: "Config", last: date) -> Days:
    """Return the `drift.window_days` that end with some day."""
    return Days(last - timedelta(days=config.drift.window_days - 1), last)


def monitoring_window(config: "Config", logical_date: date, trained_until: date) -> Watched:
    """Return the days on which a model that was trained until some day is watched."""
    windows = plan(config, logical_date)
    due = newest(config, windows.labels_due)
    first = max(due.first, windows.features.first, trained_until + timedelta(days=1))
    return Watched(newest(config, logical_date), Days(first, due.last))


def fold(config: "Config", test_last: date) -> Fold:
    """Return the fold whose last test day is given."""
    protocol, delay = config.protocol, config.label_delay_days
    test_first = test_last - timedelta(days=protocol.test_days - 1)
    train_last = test_first - timedelta(days=delay + 1)
    train_first = train_last - timedelta(days=protocol.train_days - 1)
    return Fold(Days(train_first, train_last), Days(test_first, test_last), delay)


def rows_of(features: "pd.DataFrame", days: Days) -> "pd.DataFrame":
    """Return the rows whose `event_time` lies on one of the days (UTC)."""
    first = features["event_time"] >= str(days.first)
    last = features["event_time"] < str(days.last + timedelta(days=1))
    return features.loc[first & last]


def count_open_days(rows: "pd.DataFrame") -> int:
    """Return on how many days (UTC) some rows lie: closed days have none, and nothing is checked on them."""
    return int(rows["event_time"].dt.floor("D").nunique())


def describe(rows: "pd.DataFrame", days: Days, positives: int | None = None) -> FoldWindow:
    """Return the days that some rows were taken from, and how many there are of both."""
    open_days = count_open_days(rows)
    return FoldWindow(first=days.first, last=days.last, rows=len(rows), open_days=open_days, positives=positives)


def apart(rows: "pd.DataFrame", seen: "pd.DataFrame") -> "pd.DataFrame":
    """Return the rows that have nothing in common with those seen in training.

    Args:
        rows: `content`, a hash of what each row holds, and `group` where the use case has groups.
        seen: the same of the training rows.
    """
    known = rows["content"].isin(seen["content"])
    if "group" in rows:
        known |= rows["group"].isin(seen["group"])
    kept: pd.DataFrame = rows.loc[~known]
    return kept
