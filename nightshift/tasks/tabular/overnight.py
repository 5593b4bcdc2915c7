"""What changes overnight and the newest day alone shows: ids in another form, another unit, a new category.

The window of days that drift compares hides a day among others, so each share is held against its median on the days
before, plus what chance adds to it.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import exp, log
from statistics import median

import numpy as np
import pandas as pd

from nightshift import storage
from nightshift.config.tabular import TabularConfig, TabularDriftLimits
from nightshift.contracts.drift import Signal
from nightshift.contracts.tables import Partition
from nightshift.runtime.printable import printable
from nightshift.tasks.base.drift import DriftInputs

DEVIATIONS = 4  # that chance may add
FEWEST = 20  # values whose size can be compared
FORMS = ((r"\d+", "9"), (r"[^\W\d_a-z]+", "A"), (r"[^\W\d_A-Z]+", "a"))


@dataclass(frozen=True)
class DayShare:
    """How many of a day's rows or entities are something."""

    count: int
    total: int

    @property
    def value(self) -> float:
        """The share, 0 to 1."""
        return self.count / self.total

    def exceeds(self, usual: float, limit: float) -> bool:
        """Return whether the share is above the usual one by more than a limit and chance."""
        noise: float = (max(usual * (1 - usual), 1 / self.total) / self.total) ** 0.5
        return self.value > usual + limit + DEVIATIONS * noise


def compare(inputs: DriftInputs[TabularConfig]) -> Iterator[Signal]:
    """Yield the signals of the newest day; none where it has no rows, or no day before has any."""
    days = [inputs.features.partition(day) for day in inputs.days.newest]
    days = [day for day in days if day.rows]
    if len(days) < 2 or days[-1].date != str(inputs.day):
        return
    yield from _compare_entities(days, inputs)
    if columns := [*filter(inputs.model.tabular.numeric.__contains__, _measured_columns(inputs.config))]:
        reference, newest = inputs.reference[columns], storage.read_batches(days[-1].uri, columns)
        yield compare_sizes(reference, newest, days[-1].date, inputs.config.drift)
    if known := inputs.model.tabular.categorical:
        yield _compare_categories(days, known, inputs.config.drift.new_categories)


def _measured_columns(config: TabularConfig) -> list[str]:
    return [*(["amount"] if config.columns.amount else []), *config.columns.numeric]


def _compare_entities(days: list[Partition], inputs: DriftInputs[TabularConfig]) -> Iterator[Signal]:
    """Yield how many of the newest day's customers, and of its rows' terminals, nothing is known of."""
    of_customer, of_terminal = (
        count.name if (count := inputs.model.tabular.features.find_count(side)) else ""
        for side in ("customer", "terminal")
    )
    limit, learned = inputs.config.drift.new_entities, inputs.model.tabular.numeric
    if of_customer in learned:
        frames = [storage.read_frame(day.uri, ["customer", of_customer]) for day in days]
        forms = [common_form(frame["customer"]) for frame in frames[-2:]]
        yield judge_entities("customers", [*map(count_new_customers, frames)], days[-1].date, limit, forms)
    if of_terminal in learned:
        counts = [storage.read_frame(day.uri, [of_terminal])[of_terminal] for day in days]
        new = [DayShare(int((count == 0).sum()), len(count)) for count in counts]
        yield judge_entities("terminals", new, days[-1].date, limit, [])


def count_new_customers(rows: pd.DataFrame) -> DayShare:
    """Return how many of a day's customers have no event before it.

    Args:
        rows: in order of time: `customer`, and the customer's events in the longest window, the row's own included.
    """
    customer, count = rows.columns
    first = rows.drop_duplicates(customer)
    return DayShare(int((first[count] == 1).sum()), len(first))


def judge_entities(name: str, new: list[DayShare], day: str, limit: float, forms: list[str]) -> Signal:
    """Return whether many more than usual are new.

    Args:
        name: of the entities, which is the signal's too.
        new: by day, the newest last.
        day: the newest.
        limit: share of the known ones that may be missing.
        forms: of the ids on the day before and the newest, as `common_form` gives them.
    """
    *before, newest = new
    usual = median(share.value for share in before)
    missing = 1 - (1 - newest.value) / (1 - usual) if usual < 1 else 0.0
    raised = missing > limit and newest.exceeds(usual, 0.0)
    unit = "customers" if name == "customers" else "rows with a terminal"
    reason = (
        f"{newest.count:,} of {newest.total:,} {unit} of {day} are new, {usual:.1%} usually; "
        f"drift.new_entities allows {limit:.0%} of the known ones to be missing."
    )
    if raised:
        written = f" They are written like {forms[1]!r}, before like {forms[0]!r}." if len({*forms}) > 1 else ""
        reason += f"{written} Check whether the source writes columns.{name[:-1]} in another form."
    return Signal(
        name=name, value=max(missing, 0.0), limit=limit, unit="share of the known", raised=raised, reason=reason
    )


def common_form(ids: pd.Series) -> str:
    """Return how most ids are written: digits as 9, upper case as A, lower case as a, each run of them once."""
    forms = Counter(_form(str(entity)) for entity in ids.drop_duplicates())
    return printable(forms.most_common(1)[0][0])


def _form(text: str) -> str:
    # a leading zero is a form of its own
    text, zero = (text[1:], "0") if text[:1] == "0" and len(text) > 1 else (text, "")
    for pattern, letter in FORMS:
        text = re.sub(pattern, letter, text)
    return (zero + text)[:40]


def compare_sizes(
    reference: pd.DataFrame, newest: Iterable[pd.DataFrame], day: str, limits: TabularDriftLimits
) -> Signal:
    """Compare how large numbers are: their geometric means, of the values that are not 0, regardless of the sign.

    Args:
        reference: the columns, of training rows.
        newest: the same of the newest day, in batches.
        day: the newest.
        limits: of which `unit_change` counts, as a factor up or down.
    """
    before, now = Magnitudes.measure([reference]), Magnitudes.measure(newest)
    moved, limit = now.mean - before.mean, log(limits.unit_change)
    enough = (before.count >= FEWEST) & (now.count >= FEWEST)
    distance = np.where(enough, np.abs(moved), 0.0)
    beyond = distance - limit - DEVIATIONS * np.hypot(before.error, now.error)
    worst = int(np.argmax(np.where(enough, beyond, -np.inf)))
    name, raised = str(reference.columns[worst]), bool(enough[worst] and beyond[worst] > 0)
    factor, others = exp(min(distance[worst], 700.0)), int((beyond > 0)[enough].sum()) - 1
    reason = (
        f"{name} is {exp(now.mean[worst]):.4g} on {day} where it was {exp(before.mean[worst]):.4g} in training "
        f"(geometric means), a factor of {factor:.3g}; drift.unit_change allows {limits.unit_change:.3g}."
    )
    if raised:
        reason += f"{f' {others} more columns changed.' if others else ''} Check the unit that the source writes."
    return Signal(name="units", value=factor, limit=limits.unit_change, unit="factor", raised=raised, reason=reason)


@dataclass(frozen=True)
class Magnitudes:
    """Logarithms of absolute values, by column.

    Attributes:
        count: finite values other than 0, (c,).
        total: sum of their logarithms, (c,).
        squares: sum of the squares of these, (c,).
    """

    count: np.ndarray
    total: np.ndarray
    squares: np.ndarray

    @classmethod
    def measure(cls, batches: Iterable[pd.DataFrame]) -> "Magnitudes":
        """Sum some rows up."""
        sums = [cls._sum(batch.to_numpy(np.float64, na_value=np.nan)) for batch in batches]
        return cls(*np.sum(sums, axis=0))

    @staticmethod
    def _sum(values: np.ndarray) -> np.ndarray:
        sizes = np.abs(values)
        counted = np.isfinite(sizes) & (sizes > 0)
        logs = np.log(sizes, out=np.zeros_like(sizes), where=counted)
        return np.stack([counted.sum(axis=0), logs.sum(axis=0), (logs**2).sum(axis=0)])

    @property
    def mean(self) -> np.ndarray:
        """Mean logarithm, (c,); 0 without values."""
        return np.asarray(self.total / np.maximum(self.count, 1))

    @property
    def error(self) -> np.ndarray:
        """Standard error of the mean, (c,)."""
        size = np.maximum(self.count, 1)
        variance = np.maximum(self.squares / size - self.mean**2, 0.0)
        return np.asarray(np.sqrt(variance / size))


def _compare_categories(days: list[Partition], known: dict[str, list[str]], limit: float) -> Signal:
    """Return the column of which most rows have a category that no training row had, beyond the usual."""
    counted = {column: [_count_unknown(day, column, set(names)) for day in days] for column, names in known.items()}
    signals = [judge_categories(column, unknown, days[-1].date, limit) for column, unknown in counted.items()]
    return max(signals, key=lambda signal: (signal.raised, signal.value))


def _count_unknown(day: Partition, column: str, known: set[str]) -> tuple[DayShare, str]:
    """Return how many of a day's rows have an unknown category, and the most frequent of these."""
    counts = storage.read_frame(day.uri, [column])[column].astype(str).value_counts()
    unknown = counts[~counts.index.isin(known)]
    return DayShare(int(unknown.sum()), day.rows), str(unknown.index[0]) if len(unknown) else ""


def judge_categories(column: str, unknown: list[tuple[DayShare, str]], day: str, limit: float) -> Signal:
    """Return whether a column has many more new categories than usual.

    Args:
        column: of the categories.
        unknown: by day, the newest last: rows with a category that no training row had, and the most frequent one.
        day: the newest.
        limit: share of rows above the usual one.
    """
    *before, (newest, example) = unknown
    usual = median(share.value for share, _ in before)
    raised = newest.exceeds(usual, limit)
    reason = (
        f"{newest.count:,} of {newest.total:,} rows of {day} have a value of {column} that no training row had, "
        f"{usual:.1%} usually; drift.new_categories allows {limit:.1%} more."
    )
    if raised:
        reason += f" The most frequent is {printable(example)[:40]!r}: check the source, or train again to learn it."
    return Signal(
        name="categories", value=newest.value - usual, limit=limit, unit="share of rows", raised=raised, reason=reason
    )
