"""Name and parameters of a run that is started here."""

from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any

from nightshift.runtime.errors import UserError


def run_name(pipeline: str, use_case: str, day: date) -> str:
    """Return the name of a day's run, by which one that is there already is found."""
    return f"{use_case}-{pipeline}-{day}"


def arguments(pipeline: str, declared: Iterable[str], known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a pipeline's parameters.

    Raises:
        UserError: when it declares one that is not known here.
    """
    declared = list(declared)
    for name in declared:
        if name not in known:
            raise UserError(
                f"pipeline {pipeline!r} takes {name!r}, and known here are {', '.join(known)}; use nightshift submit"
            )
    return {name: known[name] for name in declared}
