"""Errors that end in one clear line, never a traceback: exit code 2 for a user's mistake, 75 if preempted, else 1."""

import difflib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http import HTTPStatus

from nightshift import DISTRIBUTION

EXTRA = re.compile(r"""extra == ["']([\w-]+)""")


class UserError(ValueError):
    """Something outside the code is wrong: a config, a file, a flag, what a server refuses.

    The message names the field, the value, what is allowed and the next step.
    """


class UnavailableError(RuntimeError):
    """Something outside the code does not answer and may do so later: exit code 1, which engines try again."""


class PreemptedError(RuntimeError):
    """The work ends early, after a checkpoint was saved: exit code 75, which engines try again without counting it."""


def may_pass(status: int) -> bool:
    """Return whether what a server has answered, an HTTP status, may be gone at the next attempt."""
    return status == HTTPStatus.TOO_MANY_REQUESTS or status >= HTTPStatus.INTERNAL_SERVER_ERROR


def nearest(name: str, allowed: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the allowed name closest to `name`, or nothing."""
    match = difflib.get_close_matches(name, list(allowed), n=1)
    return f"; did you mean {str(match[0])!r}?" if match else ""  # also of an enumeration


def check_names(field: str, names: Iterable[str], allowed: Iterable[str]) -> None:
    """Refuse the first name that is not allowed.

    Raises:
        UserError: naming the field, the name, what is allowed and the closest of it.
    """
    allowed = sorted(allowed)
    for name in names:
        if name not in allowed:
            raise UserError(f"{field}.{name}: unknown; allowed here: {', '.join(allowed)}{nearest(name, allowed)}")


def suggest_install(extra: str, distribution: str = DISTRIBUTION) -> str:
    """Return the command that installs the libraries of an extra, in a checkout as elsewhere."""
    return f"pip install '{distribution}[{extra}]'"


@contextmanager
def require_extra(field: str = "", extra: str = "", distribution: str = DISTRIBUTION) -> Iterator[None]:
    """Turn a library that is missing into a UserError that names the extra that has it; any other error stays.

    Args:
        field: what needs the library, at the start of the message.
        extra: that has the library; by default the one of the project's own extras that names it.
        distribution: whose extra it is.
    """
    try:
        yield
    except ImportError as error:
        extra = extra or _find_extra(error)
        if not extra:
            raise
        named = f"{field} needs a library that is missing ({error})"
        missing = named if field else f"the library {error.name} is missing"
        raise UserError(f"{missing}; run {suggest_install(extra, distribution)}") from None


def _find_extra(error: ImportError) -> str:
    """Return the first of the project's extras that has the missing module's library; empty when none has it."""
    from importlib import metadata  # only here: every process imports this module

    if not isinstance(error, ModuleNotFoundError):
        return ""
    library = re.escape(str(error.name).partition(".")[0].replace("_", "-"))
    lines = [line for line in metadata.requires(DISTRIBUTION) or [] if re.match(rf"{library}\b", line)]
    names = [match[1] for line in lines if (match := EXTRA.search(line))]
    return next((name for name in names if name not in ("test", "lint")), "")
