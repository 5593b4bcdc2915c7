"""Ids in the online state that a server keeps in files: its logs, and copies of snapshots, which it fetches again."""

from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from nightshift.contracts.online import SUFFIX, Snapshot
from nightshift.data import values
from nightshift.erasure.subject import DataSubject
from nightshift.tabular.online import embedded
from nightshift.tabular.online.layout import EventRecord, RecordLayout
from nightshift.tabular.online.log import Record, WriteAheadLog, commits


@dataclass(frozen=True)
class EmbeddedState:
    """The folder of a state, which no process has.

    Attributes:
        folder: of the state.
        snapshot: manifest of a snapshot of the use case, which says what records hold.
    """

    folder: Path
    snapshot: Snapshot

    @property
    def logs(self) -> list[Path]:
        """Its logs, the one that counts last."""
        numbered = (path for path in self.folder.glob("*.log") if path.stem.isdecimal())
        return sorted(numbered, key=lambda path: int(path.stem))

    @property
    def copies(self) -> list[Path]:
        """Copies of snapshots."""
        return sorted(self.folder.glob(f"*{SUFFIX}"))

    def identify(self, subject: DataSubject) -> DataSubject:
        """Return an entity with the ids of its events in the logs too."""
        records = [record for path in self.logs for record in _read(path)]
        own = {str(record.event_id) for record in records if self._is_of(record, subject)}
        return replace(subject, events=subject.events | own)

    def count(self, subject: DataSubject) -> int:
        """Return how many records of the logs are an entity's."""
        return sum(self._is_of(record, subject) for path in self.logs for record in _read(path))

    def erase(self, subject: DataSubject) -> None:
        """Begin a log without the records of an entity, then remove the logs before, drafts and copies of snapshots.

        Raises:
            UserError: when the log is damaged.
        """
        if self.count(subject):
            self._rewrite(subject)
        for path in (*self.copies, *self.folder.glob("*.draft")):
            path.unlink()

    def _rewrite(self, subject: DataSubject) -> None:
        *_, newest = before = self.logs
        header = embedded.header(newest)
        number = header.number + 1
        log = WriteAheadLog.create(self.folder / f"{number}.draft", msgspec.structs.replace(header, number=number))
        for record in _read(newest):
            if not self._is_of(record, subject):
                log.append(record)
        log.commit()
        log.rename(self.folder / f"{number}.log")
        log.close()
        embedded.flush(self.folder)
        (self.folder / "mark").unlink(missing_ok=True)  # it is the old log's, and the new one is whole without it
        for path in before:
            path.unlink()

    def _is_of(self, record: Record, subject: DataSubject) -> bool:
        if values.canonical(record.event_id) in subject.events:
            return True
        columns = RecordLayout(self.snapshot.features, self.snapshot.events).columns
        if not isinstance(record, EventRecord) or subject.role not in columns:
            return False
        return values.canonical(record.columns[columns.index(subject.role)]) == subject.value


def _read(path: Path) -> list[Record]:
    return [record for commit in commits(path) for record in commit.records]
