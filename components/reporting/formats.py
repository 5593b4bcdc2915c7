"""How the report writes values: short for people, exact in the `value` of an HTML `<data>` element."""

from collections.abc import Callable
from datetime import datetime

from markupsafe import Markup

NOTHING = Markup('<span class="none">&ndash;</span>')


def _shown(write: Callable[[float], str]) -> Callable[[float | None], Markup]:
    def shown(value: float | None) -> Markup:
        if value is None:
            return NOTHING
        return Markup('<data value="{}">{}</data>').format(value, write(value))

    return shown


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _score(value: float) -> str:
    return f"{value:.3f}"


def _bound(value: float) -> str:
    # one digit less than the value between the bounds
    return f"{value:.2f}" if abs(value) < 10 else f"{value:,.0f}"


def _percent(value: float) -> str:
    # a handful of bad rows among many is not 0.0 %
    return f"{100 * value:.1f} %" if value >= 0.01 else f"{100 * value:#.2g} %"


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
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def moment(value: datetime | None) -> str | Markup:
    """Write a time in UTC to the minute."""
    return f"{value:%Y-%m-%d %H:%M} UTC" if value else NOTHING


FILTERS: dict[str, Callable[..., str]] = {
    "count": _shown(_count),
    "score": _shown(_score),
    "bound": _shown(_bound),
    "percent": _shown(_percent),
    "seconds": _shown(_seconds),
    "size": _shown(lambda value: f"{value / 1e6:,.0f} MB"),
    "flops": _shown(lambda value: _metric(value, "FLOP/s")),
    "plain": _shown(_plain),
    "moment": moment,
}
