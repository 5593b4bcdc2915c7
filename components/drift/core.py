"""Whether anything has drifted: the signals that every task has, and the verdict."""

from collections.abc import Iterator
from typing import Any

from nightshift.config.policy import DriftLimits
from nightshift.contracts.drift import SCORE, ColumnDrift, Signal
from nightshift.contracts.verdict import Decision, Measure, Verdict
from nightshift.stats.levels import WeekdayLevel
from nightshift.tasks.base.drift import Comparison, DriftInputs

LABELS = "labels"
NAMED = 3  # drifted inputs among the reasons; drift.json has them all
VOLUME_UNIT, PSI = "relative change", "population stability index"
LABELED = 0.5  # share of a day's rows that have labels, below which labels are late


def signals(columns: list[ColumnDrift], inputs: DriftInputs[Any], comparison: Comparison) -> Iterator[Signal]:
    """Yield everything that may have changed: the one list to which a new signal of every task is added."""
    limits = comparison.limits
    yield from shifts(columns, limits)
    yield from comparison.unlabeled_signals()
    yield from read_signals(inputs)
    yield volume(inputs.rows, inputs.usual_rows, limits.volume)
    if inputs.labels is not None:
        yield labels(int(inputs.labels.sum()), len(inputs.labels))
        yield unlabeled_days(inputs)
    if inputs.labeled_days:
        yield from comparison.labeled_signals()


def read_signals(inputs: DriftInputs[Any]) -> Iterator[Signal]:
    """Yield what earlier steps have seen: of the events, and of the scores."""
    for table in (inputs.features, inputs.scores):
        yield from map(Signal.model_validate, table.details.get("signals", []))


def unlabeled_days(inputs: DriftInputs[Any]) -> Signal:
    """Return whether a day lacks labels that are due; the value is how many do."""
    counts = inputs.features.details.get("unlabeled", {})
    late = {str(day): counts[str(day)] for day in inputs.labeled_days if str(day) in counts}
    days = ", ".join(f"{day} ({rows:,} rows)" for day, rows in late.items())
    reason = f"Labels that are due have not arrived for {days}; deliver them." if late else "No due label is missing."
    return Signal(name="unlabeled_days", value=len(late), limit=0, unit="days", raised=bool(late), reason=reason)


def shifts(columns: list[ColumnDrift], limits: DriftLimits) -> Iterator[Signal]:
    """Yield one signal of the inputs and one of the score, as far as they are among the columns."""
    if inputs := _inputs(columns):
        moved, share, most = len(_drifted_inputs(columns)), drifted_share(columns), limits.max_drifted_share
        reason = f"{moved} of {len(inputs)} inputs drifted ({share:.0%}); at most {most:.0%} may."
        yield Signal(
            name="inputs", value=share, limit=most, unit="share of the inputs", raised=share > most, reason=reason
        )
    for score in columns:
        if score.name == SCORE:
            reason = f"The score {'drifted' if score.drifted else 'did not drift'}: {_figures(score)}."
            yield Signal(
                name=SCORE, value=score.psi, limit=score.psi_limit, unit=PSI, raised=score.drifted, reason=reason
            )


def judge(subject: str, columns: list[ColumnDrift], signals: list[Signal]) -> Verdict:
    """Decide whether anything has drifted: a verdict that is reported and blocks nothing.

    Args:
        subject: identity of the model.
        columns: whose drifted inputs are named among the reasons.
        signals: everything that may have changed.
    """
    reasons = [signal.reason for signal in signals]
    moved = _drifted_inputs(columns)
    reasons += [f"Input {column.name} drifted: {_figures(column)}." for column in moved[:NAMED]]
    reasons += [f"{len(moved) - NAMED} more inputs drifted."] if len(moved) > NAMED else []
    return Verdict(
        gate="drift",
        decision=Decision.FAIL if any(signal.raised for signal in signals) else Decision.PASS,
        reasons=reasons,
        measures=[_measure(signal) for signal in signals],
        subject=subject,
        advisory=True,
    )


def drifted_share(columns: list[ColumnDrift]) -> float:
    """Return the share of the inputs that have drifted; 0 without inputs."""
    return len(_drifted_inputs(columns)) / max(1, len(_inputs(columns)))


def _inputs(columns: list[ColumnDrift]) -> list[ColumnDrift]:
    return [column for column in columns if column.name != SCORE]


def _drifted_inputs(columns: list[ColumnDrift]) -> list[ColumnDrift]:
    """Return the inputs that have drifted, worst first."""
    moved = [column for column in _inputs(columns) if column.drifted]
    return sorted(moved, key=lambda column: -column.psi)


def _measure(signal: Signal) -> Measure:
    return Measure(name=signal.name, value=signal.value, limit=signal.limit, higher_is_better=signal.name == LABELS)


def volume(rows: int | None, usual: WeekdayLevel, limit: float) -> Signal:
    """Compare a day's rows with those of its weekday; the value is the larger ratio less 1.

    Args:
        rows: None where there are none and there may be none.
        usual: the weekday's level, where the limit is larger if its days differ more.
        limit: beyond which the signal is raised.
    """
    limit = max(limit, usual.chance)
    change = usual.change(rows) if rows else None
    raised = rows == 0 or (change is not None and change > limit)
    return Signal(
        name="volume", value=change, limit=limit, unit=VOLUME_UNIT, raised=raised, reason=_describe_volume(rows, usual)
    )


def _describe_volume(rows: int | None, usual: WeekdayLevel) -> str:
    if rows is None:
        return "The newest day has no rows, which source.empty_days allows."
    day = usual.weekday
    if not usual.days:
        return f"{rows:,} rows on the newest day, a {day}; the model knows no {day} to compare it with."
    return f"{rows:,} rows on the newest day, {usual.expected:,.0f} expected on a {day}."


def labels(labeled: int, rows: int) -> Signal:
    """Return whether the labels that are due have arrived; the value is their share of that day's rows."""
    share = labeled / max(rows, 1)
    reason = f"{labeled:,} of {rows:,} rows have labels on the newest day whose labels are due."
    unit = "share of the day's rows"
    return Signal(name=LABELS, value=share, limit=LABELED, unit=unit, raised=share < LABELED, reason=reason)


def _figures(column: ColumnDrift) -> str:
    text = f"PSI {column.psi:.3f} (limit {column.psi_limit:.3g})"
    if column.wasserstein is None:
        return text
    return f"{text}, Wasserstein {column.wasserstein:.3f} standard deviations (limit {column.wasserstein_limit:.3g})"
