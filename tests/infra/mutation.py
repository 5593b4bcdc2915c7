"""Defects sown into copies of `infra/`, to see that some check catches each."""

import importlib
import shutil
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
        caught_by: the check that has to fail, by its name in `checks.run`.
        says: a part of what that check answers, so that it does not fail for another reason.
    """

    name: str
    file: str
    before: str
    after: str
    caught_by: str
    says: str


def defects(cloud: str) -> tuple[Defect, ...]:
    """The defects that are sown into one cloud's configuration."""
    found: tuple[Defect, ...] = importlib.import_module(f"tests.infra.{cloud}.defects").DEFECTS
    return found


def sow(defect: Defect, cloud: str, folder: Path) -> Path:
    """Copy `infra/` below `folder`, with the defect in it, and return the copy."""
    source = Path(shutil.copytree(INFRA, folder / "infra"))
    path = source / cloud / defect.file
    text = path.read_text()
    assert text.count(defect.before) == 1, f"{defect.before!r} occurs {text.count(defect.before)} times in {path}"
    path.write_text(text.replace(defect.before, defect.after))
    return source
