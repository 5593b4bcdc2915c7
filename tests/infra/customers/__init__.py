"""Answers of four customers: own ranges, regions, registries, groups, sizes and choices, and nothing wrong."""

import shutil
from pathlib import Path

from infra.terraform import INFRA

FOLDER = Path(__file__).parent


def names(cloud: str) -> list[str]:
    """Return the customers of a cloud, by the names of their environments."""
    return sorted(path.stem.removeprefix(f"{cloud}-") for path in FOLDER.glob(f"{cloud}-*.yaml"))


def copy_of(scratch: Path, cloud: str, name: str) -> Path:
    """Return a copy of `infra/` with a customer's answers in it."""
    infra = Path(shutil.copytree(INFRA, scratch / "infra", ignore=shutil.ignore_patterns("__pycache__")))
    shutil.copy(FOLDER / f"{cloud}-{name}.yaml", infra / "answers")
    return infra
