"""Whether anything has drifted: the signals that every task has, and the verdict."""

from collections.abc import Iterator
from typing import Any

from nightshift.config.policy import DriftLimits
from nightshift.contracts.drift import SCORE, ColumnDrift, Signal
from nightshift.contracts.verdict import Decision, Measure, Verdict
from nightshift.tasks.protocol import Comparison, DriftInputs

LABELS = "labels"
NAMED = 3  # drifted inputs among the reasons; drift.json has them all
LABELED = 0.5  # share of a usual day's rows that have labels, below which labels are late


def signals(columns: list[ColumnDrift], inputs: DriftInputs[Any], comparison: Comparison) -> Iterator[Signal]:
    """Yield everything that may have changed: the one list to which a new signal of every task is added."""
    limits = comparison.limits
    yield from shifts(columns, limits)
    yield from comparison.unlabeled_signals()
    yield volume(inputs.rows, inputs.rows_a_day, limits.volume)
    if inputs.labeled_days:
        yield labels(comparison.labeled_count, inputs.rows_a_day)
        yield from comparison.labeled_signals()


def shifts(columns: list[ColumnDrift], limits: DriftLimits) -> list[Signal]:
    """Return one signal of the inputs and one of the score, which is among the columns."""
    score = next(column for column in columns if column.name == SCORE)
    inputs, moved, most = len(columns) - 1, len(_drifted_inputs(columns)), limits.max_drifted_share
    share = moved / inputs
    return [
        Signal(
            name="inputs",
            value=share,
            limit=most,
            raised=share > most,
            reason=f"{moved} of {inputs} inputs drifted ({share:.0%}); at most {most:.0%} may.",
        ),
        Signal(
            name=SCORE,
            value=score.psi,
            limit=limits.psi,
            raised=score.drifted,
            reason=f"The score {'drifted' if score.drifted else 'did not drift'}: {_figures(score, limits)}.",
        ),
    ]


def judge(subject: str, columns: list[ColumnDrift], signals: list[Signal], limits: DriftLimits) -> Verdict:
    """Decide whether anything has drifted: a verdict that is reported and blocks nothing.

    Args:
        subject: identity of the model.
        columns: whose drifted inputs are named among the reasons.
        signals: everything that may have changed.
        limits: to be named.
    """
    reasons = [signal.reason for signal in signals]
    moved = _drifted_inputs(columns)
    reasons += [f"Input {column.name} drifted: {_figures(column, limits)}." for column in moved[:NAMED]]
    reasons += [f"{len(moved) - NAMED} more inputs drifted."] if len(moved) > NAMED else []
    return Verdict(
        gate="drift",
        decision=Decision.FAIL if any(signal.raised for signal in signals) else Decision.PASS,
        reasons=reasons,
        measures=[_measure(signal) for signal in signals],
        subject=subject,
        advisory=True,
    )


def _drifted_inputs(columns: list[ColumnDrift]) -> list[ColumnDrift]:
    """Return the inputs that have drifted, worst first."""
    moved = [column for column in columns if column.name != SCORE and column.drifted]
    return sorted(moved, key=lambda column: -column.psi)


def _measure(signal: Signal) -> Measure:
    return Measure(name=signal.name, value=signal.value, limit=signal.limit, higher_is_better=signal.name == LABELS)


def volume(rows: int | None, expected: float, limit: float) -> Signal:
    """Compare a day's rows with the reference's rows a day; the value is the larger ratio less 1.

    Args:
        rows: None where there are none and there may be none.
        expected: rows a day.
        limit: beyond which the signal is raised.
    """
    if rows is None:
        reason = "The newest day has no rows, which source.empty_days allows."
        return Signal(name="volume", value=None, limit=limit, raised=False, reason=reason)
    change = max(rows / expected, expected / rows) - 1 if rows else None
    raised = change is None or change > limit
    reason = f"{rows:,} rows on the newest day, {expected:,.0f} expected."
    return Signal(name="volume", value=change, limit=limit, raised=raised, reason=reason)


def labels(labeled: int, expected: float) -> Signal:
    """Return whether the labels that are due have arrived; the value is their share of a usual day's rows."""
    share = labeled / expected
    reason = f"{labeled:,} rows have labels on the newest day whose labels are due, {expected:,.0f} expected."
    return Signal(name=LABELS, value=share, limit=LABELED, raised=share < LABELED, reason=reason)


def _figures(column: ColumnDrift, limits: DriftLimits) -> str:
    text = f"PSI {column.psi:.3f} (limit {limits.psi:.3g})"
    if column.wasserstein is None:
        return text
    return f"{text}, Wasserstein {column.wasserstein:.3f} standard deviations (limit {limits.wasserstein:.3g})"
