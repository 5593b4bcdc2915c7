"""How a day is written: YYYY-MM-DD and in no other way, since it names locks, runs and partitions."""

import re
from datetime import date

from nightshift.runtime.errors import UserError

WRITTEN = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
# between them, timestamps in nanoseconds hold every window that a config can ask for
FIRST, LAST = date(1900, 1, 1), date(2199, 12, 31)


def parse_date(text: str) -> date:
    """Read a day written YYYY-MM-DD.

    Raises:
        UserError: when it is anything else, or a day that no timestamp holds.
    """
    day = _parse(text) if WRITTEN.fullmatch(text) else None
    if day is None:
        raise UserError(f"date is {text!r}; write a day as YYYY-MM-DD, for example 2018-08-14")
    if not FIRST <= day <= LAST:
        raise UserError(f"date is {text!r}; give a day from {FIRST} to {LAST}")
    return day


def _parse(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None
