"""What a person has to know before using a day's scores: a flood of flags, and labels that are late."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from nightshift import storage
from nightshift.contracts.drift import Signal
from nightshift.contracts.tables import Partition, Table

FLAGGED = "flagged"
DEVIATIONS = 3  # standard deviations that chance may add to a count with the allowed mean


@dataclass(frozen=True)
class ScoreAlert:
    """What a person has to know.

    Attributes:
        headline: the end of one.
        sentence: with figures, limit and next step.
    """

    headline: str
    sentence: str


def compare_flags(days: Sequence[Partition], limit: float) -> Signal | None:
    """Compare the flagged share of the newest day with the median of the days before.

    Args:
        days: scores with a column `flagged`, the newest day last.
        limit: times the usual share that may be flagged.

    Returns:
        None without rows on the newest day or on any before.
    """
    *before, newest = days
    shares = [count_flagged(day) / day.rows for day in before if day.rows]
    if not newest.rows or not shares:
        return None
    usual, flagged = median(shares), count_flagged(newest)
    expected = max(usual * newest.rows, 1.0)
    allowed = limit * expected
    ratio = flagged / expected
    reason = (
        f"{flagged:,} of {newest.rows:,} events of {newest.date} are flagged, {ratio:.3g} times the usual "
        f"{expected:,.3g} (median share of {len(shares)} days); scoring.max_flagged allows {limit:.3g} times."
    )
    raised = flagged > allowed + DEVIATIONS * allowed**0.5
    advice = " Check the day's events before anyone acts on the flags." if raised else ""
    return Signal(
        name=FLAGGED, value=ratio, limit=limit, unit="times the usual share", raised=raised, reason=reason + advice
    )


def count_flagged(day: Partition) -> int:
    """Return how many of a day's events are flagged."""
    return int(storage.read_frame(day.uri, [FLAGGED])[FLAGGED].sum()) if day.rows else 0


def report_flood(signal: Signal | None) -> Iterator[ScoreAlert]:
    """Yield an alert where too many events are flagged."""
    if signal and signal.raised:
        yield ScoreAlert(f"{signal.value:.3g} times the usual share is flagged", signal.reason)


def report_late_labels(features: Table) -> Iterator[ScoreAlert]:
    """Yield an alert where labels are due that have not arrived."""
    if unlabeled := features.details.get("unlabeled"):
        days = ", ".join(unlabeled)
        rows = sum(unlabeled.values())
        yield ScoreAlert(
            f"labels of {days} are late",
            f"{rows:,} rows of {days} have no label although it is due; features count them as negative, so scores may "
            "be too low. Deliver the labels, or raise label_delay_days if labels take longer.",
        )
