"""How figures are written for people: short, in the unit of their format."""

from collections.abc import Callable

from nightshift.contracts.section import Cell, Estimate, Format
from nightshift.runtime.printable import printable


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _score(value: float) -> str:
    return f"{value:z.3f}"


def _percent(value: float) -> str:
    # a handful of bad rows among many is not 0.0 %
    return f"{100 * value:.1f} %" if value >= 0.01 or not value else f"{100 * value:#.2g} %"


def _seconds(value: float) -> str:
    if value < 59.95:
        return f"{value:.1f} s"
    minutes, seconds = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"


def _metric(value: float, unit: str) -> str:
    for power, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= power:
            return f"{value / power:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"


def _plain(value: float) -> str:
    return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"


WRITERS: dict[Format, Callable[[float], str]] = {
    "text": lambda value: f"{value:g}",
    "code": lambda value: f"{value:g}",
    "count": _count,
    "score": _score,
    "percent": _percent,
    "seconds": _seconds,
    "size": lambda value: f"{value / 1e6:,.0f} MB",
    "flops": lambda value: _metric(value, "FLOP/s"),
    "plain": _plain,
}


def format_value(value: Cell, form: Format) -> str:
    """Write a value as plain text, a dash for one that is not known."""
    if value is None:
        return "-"
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, Estimate):
        return f"{WRITERS[form](value.value)} {bounds(value)}"
    return WRITERS[form](value)


def bounds(value: Estimate) -> str:
    """Write an interval, with one digit less than the value between its bounds."""
    low, high = (f"{bound:z.2f}" if abs(bound) < 10 else f"{bound:,.0f}" for bound in (value.low, value.high))
    return f"[{low}, {high}]"
