"""Errors that are the user's to mend: one clear line, exit code 2, never a traceback."""

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """Something outside the code is wrong: a config, a file, a flag, a server that does not answer.

    The message names the field, the value, what is allowed and the next step.
    """


def nearest(name: str, allowed: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the allowed name closest to `name`, or nothing."""
    match = difflib.get_close_matches(name, list(allowed), n=1)
    return f"; did you mean {match[0]!r}?" if match else ""
