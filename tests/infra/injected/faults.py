"""What is injected: an edit of one file, made by rule (`changes.py`) or written by hand (`mistakes.yaml`)."""

import functools
import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from infra.terraform import INFRA
from tests.infra.checks import CLOUDS


@dataclass(frozen=True)
class Fault:
    """A file with one thing in it dropped or changed.

    Attributes:
        file: below `infra/`.
        change: the edit.
        text: makes the file's new text.
        kind: of mistake; empty when the edit was made by rule.
        reason: pattern of a finding that names it, for the same.
    """

    file: str
    change: str
    text: Callable[[], str] = field(compare=False, repr=False)
    kind: str = ""
    reason: str = ""

    @property
    def cloud(self) -> str:
        """Return the cloud whose environment shows it."""
        return "gcp" if "gcp" in self.file else "aws"

    @property
    def is_terraform(self) -> bool:
        """Say whether a cloud's configuration has it."""
        return self.file.split("/")[0] in CLOUDS

    @property
    def is_planned(self) -> bool:
        """Say whether Terraform has to plan it anew."""
        return self.is_terraform or self.file.startswith("answers/")

    def is_named(self, findings: Iterable[str]) -> bool:
        """Say whether a finding names what was changed."""
        return any(re.search(self.reason, finding) for finding in findings)

    def __str__(self) -> str:
        return f"{self.file}: {self.change}"


# the check that saw each fault, or an empty text
Verdicts = dict[Fault, str]


def read_mistakes() -> dict[str, list[Fault]]:
    """Return the mistakes of `mistakes.yaml` by round."""
    rounds = yaml.safe_load(Path(__file__).with_name("mistakes.yaml").read_text())
    return {name: [_mistake(**entry) for entry in entries] for name, entries in rounds.items()}


def _mistake(kind: str, file: str, old: str, new: str, reason: str) -> Fault:
    return Fault(file, f"{old!r} -> {new!r}", functools.partial(_replace, file, old, new), kind, reason)


def _replace(file: str, old: str, new: str) -> str:
    text = (INFRA / file).read_text()
    assert old in text, f"{file} has no {old!r}"
    return text.replace(old, new, 1)


def inject(faults: Iterable[Fault], scratch: Path) -> Path:
    """Return a copy of `infra/` with faults of different files in it."""
    infra = Path(shutil.copytree(INFRA, scratch / "infra", ignore=shutil.ignore_patterns("__pycache__")))
    for fault in faults:
        (infra / fault.file).write_text(fault.text())
    return infra


def group(faults: Sequence[Fault]) -> list[list[Fault]]:
    """Put faults together that change different files, so that neither hides the other."""
    groups: list[list[Fault]] = []
    for fault in faults:
        fitting = (group for group in groups if fault.file not in {other.file for other in group})
        if (chosen := next(fitting, None)) is None:
            groups.append(chosen := [])
        chosen.append(fault)
    return groups
