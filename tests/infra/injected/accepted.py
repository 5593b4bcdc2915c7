"""Changes that nothing sees, and why that is right."""

import re
from collections.abc import Iterable
from pathlib import Path

import yaml

from tests.infra.injected.faults import Fault

FILE = Path(__file__).with_suffix(".yaml")


def reasons() -> dict[str, str]:
    """Return why what matches a pattern may survive, by pattern."""
    texts: dict[str, str] = yaml.safe_load(FILE.read_text()) or {}
    return texts


def reason(fault: Fault) -> str:
    """Return why a change may survive, or an empty text when it may not."""
    return next((why for pattern, why in reasons().items() if re.search(pattern, str(fault))), "")


def unexplained(survivors: Iterable[Fault]) -> list[str]:
    """Return the survivors that nobody has accepted."""
    return [str(fault) for fault in survivors if not reason(fault)]
