"""Defects sown into copies of `infra/`, to see that some check catches each."""

import importlib
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from infra.terraform import INFRA


@dataclass(frozen=True)
class Defect:
    """One mistake somebody could make.

    Attributes:
        name: what is wrong, in a few words.
        file: where, below the cloud's folder.
        before: the text there, which occurs once.
        after: what stands in its place.
        caught_by: the check that has to fail, by its name in `checks.run` or among the cloud's policies.
        says: a part of what that check answers, so that it does not fail for another reason.
        alone: whether other defects that are sown beside it could not be seen.
    """

    name: str
    file: str
    before: str
    after: str
    caught_by: str
    says: str
    alone: bool = False


def defects(cloud: str) -> tuple[Defect, ...]:
    """The defects that are sown into one cloud's configuration."""
    found: tuple[Defect, ...] = importlib.import_module(f"tests.infra.{cloud}.defects").DEFECTS
    return found


def sow(sown: Iterable[Defect], cloud: str, folder: Path) -> Path:
    """Copy `infra/` below `folder`, with the defects in it, and return the copy."""
    source = Path(shutil.copytree(INFRA, folder / "infra"))
    for defect in sown:
        path = source / cloud / defect.file
        text = path.read_text()
        assert text.count(defect.before) == 1, f"{defect.before!r} occurs {text.count(defect.before)} times in {path}"
        path.write_text(text.replace(defect.before, defect.after))
    return source
