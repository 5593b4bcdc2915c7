"""An update of a project: what its user has changed, merged with what another version renders."""

import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

from nightshift import storage
from nightshift.runtime.errors import UserError
from pipelines.scaffold.project import RECORD, ProjectRecord, render

SIDES = ("yours", "before", "new")
MAX_CONFLICTS = 127  # git's exit codes above are errors


@dataclass(frozen=True)
class FileUpdate:
    """A file that an update changes.

    Attributes:
        file: relative to the project.
        before: its text as it is now, empty where there is none.
        after: its text after the update.
        has_conflict: whether the user and the new version have changed the same lines; `after` marks both.
    """

    file: str
    before: str
    after: str
    has_conflict: bool

    def describe(self) -> str:
        """Return what changes, as a unified diff."""
        before, after = (text.splitlines(keepends=True) for text in (self.before, self.after))
        return "".join(unified_diff(before, after, f"a/{self.file}", f"b/{self.file}"))


def read_record(folder: Path) -> ProjectRecord:
    """Return what a project was rendered from.

    Raises:
        UserError: when the folder has no project, or its record is not valid.
    """
    file = folder / RECORD
    if not file.exists():
        raise UserError(f"{folder.resolve()} has no {RECORD}; run this in a project that nightshift init has written")
    return ProjectRecord.parse_record(file.read_bytes(), str(file))


def prepare(folder: Path) -> tuple[ProjectRecord, ProjectRecord, list[FileUpdate]]:
    """Return a project's record, what this version renders, and the files that an update changes."""
    recorded = read_record(folder)
    rendered = render(recorded.name, recorded.data)
    return recorded, rendered, list(plan_update(folder, recorded, rendered))


def plan_update(folder: Path, recorded: ProjectRecord, rendered: ProjectRecord) -> Iterator[FileUpdate]:
    """Yield the files that this version's rendering changes; what the user has changed or deleted stays so.

    Args:
        folder: of the project.
        recorded: what it was rendered as before.
        rendered: what this version renders.

    Raises:
        UserError: when git is missing, or a file is not UTF-8.
    """
    for file, new in rendered.files.items():
        before, path = recorded.files.get(file), folder / file
        is_deleted = before is not None and not path.exists()
        if is_deleted or new == before:
            continue
        yours = _read_text(path)
        after, has_conflict = (new, False) if yours in ("", before) else merge(yours, before or "", new)
        if after != yours:
            yield FileUpdate(file, yours, after, has_conflict)


def merge(yours: str, before: str, new: str) -> tuple[str, bool]:
    """Return a text with the changes of both sides, and whether some of them touch the same lines, which are marked.

    Raises:
        UserError: when git is missing.
    """
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, side) for side in SIDES]
        for path, text in zip(paths, (yours, before, new), strict=True):
            path.write_bytes(text.encode())
        labels = [word for side in SIDES for word in ("-L", side)]
        command = ["git", "merge-file", "--stdout", "--diff3", *labels, *map(str, paths)]
        try:
            done = subprocess.run(command, capture_output=True, check=False)
        except FileNotFoundError:
            raise UserError("nightshift update needs git, whose command is missing; install it") from None
    assert 0 <= done.returncode <= MAX_CONFLICTS, done.stderr.decode()
    return done.stdout.decode(), done.returncode > 0


def apply(folder: Path, rendered: ProjectRecord, updates: list[FileUpdate]) -> None:
    """Write the files that change, then the record, so that an update that breaks off is repeated."""
    for update in updates:
        path = folder / update.file
        path.parent.mkdir(parents=True, exist_ok=True)
        storage.write_bytes(str(path.resolve()), update.after.encode())
    rendered.write(str(folder / RECORD))


def _read_text(path: Path) -> str:
    try:
        return path.read_bytes().decode() if path.exists() else ""
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 ({error.reason}); save it as UTF-8") from None
