"""Name and parameters of a run that is started here."""

from collections.abc import Mapping
from datetime import date
from typing import Any

from nightshift.runtime.errors import UserError


def run_name(pipeline: str, use_case: str, day: date) -> str:
    """Return the name of a day's run, by which one that is there already is found."""
    return f"{use_case}-{pipeline}-{day}"


def arguments(pipeline: str, declared: Mapping[str, bool], known: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a pipeline's parameters.

    Args:
        pipeline: its name.
        declared: name of a parameter -> whether it has a default.
        known: name -> value.

    Raises:
        UserError: when it declares one that is not known here and has no default.
    """
    for name, has_default in declared.items():
        if name not in known and not has_default:
            raise UserError(
                f"pipeline {pipeline!r} takes {name!r}, and known here are {', '.join(known)}; use nightshift submit"
            )
    return {name: known[name] for name in declared if name in known}
