"""The flag `--state` of a step under test."""

import json
from pathlib import Path
from typing import Any

from nightshift.contracts.state import ROOTS


def state(folder: Path | str, **changed: Any) -> str:
    """Everything below a folder; nothing is served."""
    return json.dumps({root: f"{folder}/{root}" for root in ROOTS} | {"target": "register-only"} | changed)
