"""The runs of a workspace, in memory: what has changed since the last look is read again."""

import json
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from threading import Lock
from typing import Any, TypeVar, cast

from nightshift import storage
from nightshift.runtime.errors import UserError, nearest
from nightshift.storage import Version
from pipelines import records

LATEST = "latest"  # link to the newest run with a report
SUMMARY = "summary.json"
READERS = 16  # threads: an object store answers in tens of milliseconds
# seconds for which a look is good: a list of a store's folders takes as long
LOCAL_AGE, STORE_AGE = 1.0, 30.0
SHOWN = 200  # characters of an error
T = TypeVar("T")


@dataclass(frozen=True)
class IndexedRun:
    """A run, in short.

    Attributes:
        name: its id.
        pipeline: what it ran.
        use_case: name in its config; None of a pipeline without one.
        logical_date: None of a pipeline without one.
        started: UTC; where only a summary is left, when that was written.
        complete: whether every step went well.
        failed: the steps that failed.
        version: changes with the run; None of one that may change unnoticed.
    """

    name: str
    pipeline: str
    use_case: str | None
    logical_date: date | None
    started: datetime
    complete: bool
    failed: tuple[str, ...] = ()
    version: Version | None = None


class RunIndex:
    """The runs in a folder, at any URI.

    Args:
        root: URI of the runs.
        clock: seconds.
    """

    def __init__(self, root: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.root = root
        self._clock = clock
        self._age = STORE_AGE if "://" in root else LOCAL_AGE
        self._expires = float("-inf")
        self._lock = Lock()
        self._known: dict[str, IndexedRun | str] = {}
        self._newest: list[IndexedRun] = []
        self._damaged: dict[str, str] = {}
        self._derived: dict[tuple[str, Callable[..., Any]], tuple[Version, Any]] = {}

    def runs(self, use_case: str | None = None) -> list[IndexedRun]:
        """Return the runs of a use case, or all, the last to start first."""
        # one reader looks; meanwhile the others go on with what the last look has seen
        if self._clock() >= self._expires and self._lock.acquire(blocking=not self._newest):
            try:
                self._look()
            finally:
                self._lock.release()
        return [run for run in self._newest if use_case in (None, run.use_case)]

    @property
    def problems(self) -> list[str]:
        """Why runs are left out whose files cannot be read, as of the last look."""
        return [*(problem for problem in self._known.values() if isinstance(problem, str)), *self._damaged.values()]

    def find(self, name: str) -> IndexedRun:
        """Return a run.

        Raises:
            UserError: when there is none of that name; a path is no name.
        """
        runs = self.runs()
        for run in runs:
            if run.name == name or (name == LATEST and storage.exists(storage.join(self.root, run.name, "page.json"))):
                return run
        newest = f"; the newest is {runs[0].name}" if runs else ""
        raise UserError(f"there is no run {name!r} in {self.root}{newest}{nearest(name, [run.name for run in runs])}")

    def folder(self, run: IndexedRun) -> str:
        """Return the URI of a run's folder."""
        return storage.join(self.root, run.name)

    def derive(self, run: IndexedRun, read: Callable[[str], T]) -> T:
        """Return what a function reads in a run's folder; it is read again only when the run has changed.

        Raises:
            UserError: when a file is missing, or not what this version writes.
        """
        version, value = self._derived.get((run.name, read), (None, None))
        if version is None or version != run.version:
            value = self._read_files(run, read)
        if run.version is not None:
            self._derived[run.name, read] = (run.version, value)
        return cast("T", value)

    def try_derive(self, run: IndexedRun, read: Callable[[str], T]) -> T | None:
        """Return the same, or None of a damaged run, which is one of the problems then."""
        try:
            value = self.derive(run, read)
        except UserError as error:
            self._damaged[run.name] = str(error)
            return None
        self._damaged.pop(run.name, None)
        return value

    def derive_all(self, runs: Iterable[IndexedRun], read: Callable[[str], T | None]) -> Iterator[tuple[IndexedRun, T]]:
        """Yield each run in whose folder there is something to read, and that."""
        for run in runs:
            if value := self.try_derive(run, read):
                yield run, value

    def _read_files(self, run: IndexedRun, read: Callable[[str], T]) -> T:
        folder = self.folder(run)
        try:
            return read(folder)
        except UserError:
            raise
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            what = " ".join(repr(error).split())[:SHOWN]
            raise UserError(f"{folder} has a file that this version does not write ({what}); run it again") from None

    def _look(self) -> None:
        if self._clock() >= self._expires:  # nobody has looked while this one waited
            self._refresh()
            self._expires = self._clock() + self._age

    def _refresh(self) -> None:
        versions = storage.versions(self.root)
        versions.pop(LATEST, None)
        stale = [name for name, version in versions.items() if not self._is_fresh(name, version)]
        with ThreadPoolExecutor(READERS) as pool:
            read = dict(zip(stale, pool.map(self._read, stale, map(versions.get, stale)), strict=True))
        kept = {name: self._known[name] for name in versions if name not in read}
        self._known = kept | {name: entry for name, entry in read.items() if entry is not None}
        runs = [entry for entry in self._known.values() if isinstance(entry, IndexedRun)]
        self._newest = sorted(runs, key=lambda run: (run.started, run.name), reverse=True)

    def _is_fresh(self, name: str, version: Version | None) -> bool:
        known = self._known.get(name)
        if not isinstance(known, IndexedRun) or known.version is None:
            return False
        # an object store's folders have no version
        return known.version == version or (version is None and known.version == _DONE)

    def _read(self, name: str, version: Version | None) -> IndexedRun | str | None:
        """Return a run, or why it cannot be read; None of what is no run."""
        folder = storage.join(self.root, name)
        try:
            run = _read_record(folder, name) or _read_summary(folder, name)
        except UserError as error:
            return str(error)
        if run is None:
            return None
        is_settled = version is None and run.complete and "://" in self.root
        return replace(run, version=_DONE if is_settled else version)


_DONE: Version = ("complete",)


def _read_record(folder: str, name: str) -> IndexedRun | None:
    uri = storage.join(folder, records.FILE)
    content = _read_if_there(uri)
    if content is None:
        return None
    record = records.parse(content, uri)
    failed = tuple(step for step, outcome in record.steps.items() if outcome.get("state") == "failed")
    day = _parse_day(record.parameters.get("date"), uri)
    return IndexedRun(name, record.pipeline, record.use_case, day, _utc(record.started), record.complete, failed)


def _read_summary(folder: str, name: str) -> IndexedRun | None:
    """Return a run of an engine that keeps no record, by its summary; None without one."""
    uri = storage.join(folder, SUMMARY)
    content = _read_if_there(uri)
    if content is None:
        return None
    try:
        summary = json.loads(content)
        failed = tuple(step for step, outcome in summary["steps"].items() if outcome["state"] == "failed")
        return IndexedRun(
            name,
            summary["pipeline"] or "unknown",
            summary["config"]["name"],
            _parse_day(summary["logical_date"], uri),
            _utc(datetime.fromisoformat(summary["started"] or summary["finished"])),
            summary["status"] == "succeeded",
            failed,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{uri} is no summary of a run ({error!r}); start a new run, remove this one") from None


def _parse_day(value: Any, uri: str) -> date | None:
    try:
        return None if value is None else date.fromisoformat(str(value))
    except ValueError:
        raise UserError(f"{uri}: date is {value!r}, not YYYY-MM-DD; start a new run, remove this one by hand") from None


def _read_if_there(uri: str) -> bytes | None:
    """Return a file's bytes, None where there is none: one request to a store instead of two."""
    try:
        return storage.read_bytes(uri)
    except UserError:
        if storage.exists(uri):
            raise
        return None


def _utc(moment: datetime) -> datetime:
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
