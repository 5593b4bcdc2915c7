"""Mutants that nothing sees, and why that is right."""

import re
from collections.abc import Iterable
from pathlib import Path

import yaml

from tests.infra.mutants.sow import Mutant

FILE = Path(__file__).with_suffix(".yaml")


def reasons() -> dict[str, str]:
    """Return why what matches a pattern may survive, by pattern."""
    texts: dict[str, str] = yaml.safe_load(FILE.read_text()) or {}
    return texts


def reason(mutant: Mutant) -> str:
    """Return why a mutant may survive, or an empty text when it may not."""
    return next((why for pattern, why in reasons().items() if re.search(pattern, str(mutant))), "")


def unexplained(survivors: Iterable[Mutant]) -> list[str]:
    """Return the survivors that nobody has accepted."""
    return [str(mutant) for mutant in survivors if not reason(mutant)]
