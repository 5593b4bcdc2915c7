"""A registry in a folder, without a server: a version is a JSON record beside a copy of the model's files.

    models/<name>/<number>/model/          the model's files, see `package.py`
    models/<name>/<number>/model_card.md
    models/<name>/<number>.json            the record, written last: without it there is no such version
    models/<name>/aliases.json             the version with the alias `champion`

Writers take turns by `registry.lock`; readers need no lock, since each file appears whole. A removed version keeps its
record, so its number is never used again.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from nightshift import storage
from nightshift.contracts import package
from nightshift.contracts.registry import Aliases, RegisteredVersion
from nightshift.registry.version import CARD, MODEL, NewVersion, Version, audit, pick
from nightshift.runtime.errors import UserError
from nightshift.storage import locks

LOCK_SECONDS = 120
REMOVED = "removed"
RECORD = re.compile(r"(\d+)\.json")


@dataclass(frozen=True)
class FolderRegistry:
    """The registry in a folder, an absolute path; see `Registry`."""

    root: str

    def names(self) -> list[str]:
        """Return the names of all registered models."""
        return [name for name in storage.names(storage.join(self.root, "models")) if self._numbers(name)]

    def versions(self, name: str) -> list[Version]:
        """Return all versions of a model, oldest first."""
        records = {number: self._record(name, number) for number in self._numbers(name)}
        return [
            Version(name, number, storage.join(self._folder(name, number), MODEL), record.sha256, record.tags)
            for number, record in records.items()
            if not record.is_removed
        ]

    def find(self, name: str, number: int) -> Version:
        """Return one version."""
        return pick(self.versions(name), name, number)

    def read_card(self, version: Version) -> str:
        """Return the model card of a version."""
        uri = storage.join(self._folder(version.name, version.version), CARD)
        return storage.read_bytes(uri).decode() if storage.exists(uri) else ""

    def alias(self, name: str) -> int | None:
        """Return the number of the version with the alias `champion`."""
        uri = self._file(name, "aliases.json")
        return Aliases.parse_record(storage.read_bytes(uri), uri).champion if storage.exists(uri) else None

    def set_alias(self, name: str, number: int) -> None:
        """Give a version the alias `champion`."""
        Aliases(champion=number).write(self._file(name, "aliases.json"))

    def add(self, new: NewVersion) -> int:
        """Copy a model's files into a new version and return its number; the caller holds the lock."""
        number = max(self._numbers(new.name), default=0) + 1
        folder = self._folder(new.name, number)
        storage.remove_folder(folder)  # left by a killed registration
        package.copy(new.uri, storage.join(folder, MODEL))
        if new.card:
            storage.write_bytes(storage.join(folder, CARD), new.card.encode())
        record = RegisteredVersion(sha256=new.package.sha256, tags=new.tags, metrics=dict(new.metrics))
        record.write(self._file(new.name, f"{number}.json"))
        return number

    def remove(self, name: str, numbers: Iterable[int]) -> None:
        """Remove versions and their files; see `nightshift.registry.remove`."""
        for number in numbers:
            self.find(name, number)
            record = self._record(name, number)
            removed = record.model_copy(update={"tags": record.tags | audit(REMOVED)})
            removed.write(self._file(name, f"{number}.json"))
        for folder in self.leftovers(name):
            storage.remove_folder(folder)

    def leftovers(self, name: str) -> list[str]:
        """Return the version folders of interrupted removals."""
        removed = [number for number in self._numbers(name) if self._record(name, number).is_removed]
        return [folder for number in removed if storage.exists(folder := self._folder(name, number))]

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock out this machine's other writers; calls may be nested."""
        with ExitStack() as stack:
            try:
                Path(self.root).mkdir(parents=True, exist_ok=True)
                stack.enter_context(locks.hold_nested(self._lock_path, LOCK_SECONDS))
            except BlockingIOError:
                raise UserError(
                    f"registry {self.root} has been in use for {LOCK_SECONDS} s; wait for the other run, or stop it"
                ) from None
            except OSError as error:
                raise UserError(
                    f"registry {self.root}: {error.strerror}; give a folder that can be written to"
                ) from None
            yield

    def read_holder(self) -> str | None:
        """Return a text that is new each time a process takes the lock; None while nobody holds it."""
        return locks.read_holder(self._lock_path)

    @property
    def _lock_path(self) -> Path:
        return Path(self.root) / "registry.lock"

    def _numbers(self, name: str) -> list[int]:
        """Return the numbers of all versions, also of removed ones, in order."""
        matches = map(RECORD.fullmatch, storage.names(self._file(name)))
        return sorted(int(match[1]) for match in matches if match)

    def _record(self, name: str, number: int) -> RegisteredVersion:
        uri = self._file(name, f"{number}.json")
        return RegisteredVersion.parse_record(storage.read_bytes(uri), uri)

    def _folder(self, name: str, number: int) -> str:
        return self._file(name, str(number))

    def _file(self, name: str, *parts: str) -> str:
        return storage.join(self.root, "models", name, *parts)
