"""A person's way on when a state's folder is damaged: what can still be read becomes a new log, and nothing is removed.

The damaged files stay in the folder as `<name>.damaged-<number>`.
"""

import shutil
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import msgspec

from nightshift.runtime.errors import UserError
from nightshift.tabular.online.embedded import alone, flush, newest
from nightshift.tabular.online.log import Header, LogMark, Marker, Record, WriteAheadLog, damage_error, readable


@dataclass(frozen=True)
class RepairFinding:
    """What is left of a state.

    Attributes:
        header: of the log that counts.
        records: that can be read, in their order.
        written: how many were acknowledged at least; None: the file that says so is damaged too.
    """

    header: Header
    records: list[Record]
    written: int | None


def examine(folder: Path) -> RepairFinding:
    """Read what can be read of a state; nothing is changed.

    Args:
        folder: of the state, which no process has.

    Raises:
        UserError: when there is no state, a process has it, or nothing says over which snapshot it lies.
    """
    if not (folder / "lock").exists():
        raise UserError(f"{folder} is no folder of an online state; give the one that the server names")
    with alone(folder):
        return _examine(folder)


def repair(folder: Path) -> RepairFinding:
    """Have a state go on with what can be read; the files that it had are kept beside it.

    Args:
        folder: of the state, which no process has.

    Returns:
        what it goes on with.

    Raises:
        UserError: as `examine`.
    """
    with alone(folder):
        finding = _examine(folder)
        logs = [path for path in folder.glob("*.log") if path.stem.isdecimal()]
        for path in [*logs, folder / "mark"]:
            _keep(path)
        numbers = [finding.header.number, *(int(path.stem) for path in logs)]
        _write(folder, finding, max(numbers) + 1)
        for path in logs:  # each has a copy by now
            path.unlink()
    return finding


def _examine(folder: Path) -> RepairFinding:
    mark, path = _mark(folder / "mark"), newest(folder)
    if path and mark and mark.header.number > int(path.stem):
        path = None  # a leftover of an earlier state
    commits = list(readable(path)) if path else []
    if mark is None and not (commits and commits[0].text.startswith(b"{")):
        raise damage_error(folder / "mark", "is damaged, as is the log")
    header = mark.header if mark else msgspec.json.decode(commits[0].text, type=Header)
    records = [record for commit in commits for record in commit.records]
    return RepairFinding(header, records, mark.records if mark else None)


def _mark(path: Path) -> LogMark | None:
    if not path.exists():
        return None
    marker = Marker(path)
    try:
        return marker.read()
    finally:
        marker.close()


def _keep(path: Path) -> None:
    """Copy a file to a name under which it stays."""
    copied = next(copy for number in count(1) if not (copy := path.with_name(f"{path.name}.damaged-{number}")).exists())
    if path.exists():
        shutil.copy2(path, copied)


def _write(folder: Path, finding: RepairFinding, number: int) -> None:
    header = msgspec.structs.replace(finding.header, number=number)
    log = WriteAheadLog.create(folder / f"{number}.draft", header)
    for record in finding.records:
        log.append(record)
    log.commit()
    log.rename(folder / f"{number}.log")
    log.close()
    flush(folder)
    (folder / "mark").unlink(missing_ok=True)  # likewise, and the log is whole without it
