"""How the report writes values: short for people, exact in the `value` of an HTML `<data>` element."""

from datetime import datetime

from markupsafe import Markup, escape

from nightshift.contracts.section import Cell, Estimate, Format
from nightshift.runtime.printable import printable
from nightshift.stats.figures import bounds, format_value

NOTHING = Markup('<span class="none">&ndash;</span>')


def format_cell(value: Cell, form: Format) -> Markup:
    """Write a value as HTML."""
    if value is None:
        return NOTHING
    if isinstance(value, str):
        text = printable(value)
        return Markup("<code>{}</code>").format(breakable(text)) if form == "code" else escape(text)
    if isinstance(value, Estimate):
        return format_cell(value.value, form) + Markup(' <span class="interval">{}</span>').format(bounds(value))
    return Markup('<data value="{}">{}</data>').format(value, format_value(value, form))


def breakable(path: str) -> Markup:
    """Write a path or a URI so that a line may end after a slash, and names stay whole."""
    return Markup("/<wbr>").join(path.split("/"))


def number(value: Cell) -> float:
    """Return a value as the length of its bar."""
    return value.value if isinstance(value, Estimate) else value if isinstance(value, int | float) else 0.0


def moment(value: datetime | None) -> str:
    """Write a time in UTC to the minute."""
    return f"{value:%Y-%m-%d %H:%M} UTC" if value else "unknown"
