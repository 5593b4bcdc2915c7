"""The release record: which version of a use case's model is live, since when and why, and what was before."""

from datetime import date, datetime
from enum import StrEnum
from itertools import pairwise
from typing import Any

from pydantic import Field

from nightshift.contracts.artifact import Artifact, Part


class Stage(StrEnum):
    """How far the newest version has come; see `components/release/core.py`."""

    SHADOW = "shadow"
    CANARY = "canary"
    LIVE = "live"


class Action(StrEnum):
    """What led to a state of a release."""

    STARTED = "started"  # a challenger is in shadow
    ADVANCED = "advanced"  # it answers more of the requests
    PAUSED = "paused"
    RESUMED = "resumed"
    PROMOTED = "promoted"
    ROLLED_BACK = "rolled_back"


class ReleasedVersion(Part):
    """A version that takes traffic, or is about to."""

    version: int = Field(description="its number in the registry")
    sha256: str = Field(description="identity of the model")
    traffic: float = Field(1.0, ge=0, le=1, description="share of the requests that it answers")
    trained_until: date | None = Field(None, description="last day of its training data")


class Entry(Part):
    """One state of a release, and what led to it."""

    stage: Stage = Field(
        Stage.LIVE,
        description="live: one version answers all requests; canary: a challenger answers some of them; "
        "shadow: none, it is compared with the champion",
    )
    versions: list[ReleasedVersion] = Field(
        min_length=1, max_length=2, description="the champion, then its challenger, if any"
    )
    action: Action = Field(description="what led to this state")
    paused: bool = Field(False, description="whether the challenger may not get more of the requests")
    since: datetime = Field(description="when, UTC")
    by: str = Field(description="user who did it")
    run: str = Field("", description="id of the run that did it; empty when it was done by hand")
    reasons: list[str] = Field([], description="the verdict behind it, one sentence each")

    @property
    def live(self) -> ReleasedVersion:
        """The version that counts as the champion."""
        return self.versions[0]

    @property
    def challenger(self) -> ReleasedVersion | None:
        """The version that is being released."""
        return self.versions[1] if len(self.versions) > 1 else None


class LivePeriod(Part):
    """A time in which a version was the champion."""

    version: int
    since: datetime = Field(description="UTC")
    until: datetime | None = Field(description="UTC; null of the one that is live")
    by: str = Field(description="user, or the step's")
    run: str = Field(description="id of the run that promoted it; empty when it was done by hand")
    reasons: list[str] = Field(description="the verdict behind it, one sentence each")


class Release(Entry, Artifact):
    """The release record of a use case. It only grows: the newest state is its own, all before are the history."""

    use_case: str = Field(description="name in the config")
    history: list[Entry] = Field([], description="the states before this one, oldest first")

    def followed_by(self, entry: Entry) -> "Release":
        """Return the record with a new state."""
        current = Entry(**{name: getattr(self, name) for name in Entry.model_fields})
        return self.model_copy(update=dict(entry) | {"history": [*self.history, current]})

    def add_challenger(self, version: ReleasedVersion, **stamp: Any) -> Entry:
        """Return the state in which a version is compared with the champion and answers nothing.

        Args:
            version: the challenger.
            stamp: `since`, `by`, and where known `run` and `reasons`.
        """
        versions = [self.live.model_copy(update={"traffic": 1.0}), version.model_copy(update={"traffic": 0.0})]
        return Entry(stage=Stage.SHADOW, versions=versions, action=Action.STARTED, **stamp)

    @property
    def entries(self) -> list[Entry]:
        """All states, oldest first."""
        return [*self.history, self]

    @property
    def trail(self) -> list[int]:
        """The versions that were live one after the other, without those that were rolled back; the last one is."""
        numbers: list[int] = []
        for entry in self.entries:
            if entry.action is Action.ROLLED_BACK:
                while numbers and numbers[-1] != entry.live.version:
                    numbers.pop()
            elif numbers[-1:] != [entry.live.version]:
                numbers.append(entry.live.version)
        return numbers

    @property
    def rolled_back(self) -> set[int]:
        """The versions that were taken out of service and that nobody promoted or released again since."""
        out: set[int] = set()
        before: set[int] = set()
        for entry in self.entries:
            now = {served.version for served in entry.versions}
            if entry.action is Action.ROLLED_BACK:
                out |= before
            before = now
            out -= now
        return out

    @property
    def live_since(self) -> dict[int, datetime]:
        """The versions that are or were live, and when each last became so."""
        since: dict[int, datetime] = {}
        before: int | None = None
        for entry in self.entries:
            if entry.live.version != before:
                since[entry.live.version] = entry.since
            before = entry.live.version
        return since

    @property
    def live_periods(self) -> list[LivePeriod]:
        """Which version was the champion when, oldest first."""
        starts = [self.entries[0]]
        starts += [after for before, after in pairwise(self.entries) if after.live.version != before.live.version]
        ends = [*(entry.since for entry in starts[1:]), None]
        return [
            LivePeriod(
                version=entry.live.version,
                until=until,
                **entry.model_dump(include={"since", "by", "run", "reasons"}),
            )
            for entry, until in zip(starts, ends, strict=True)
        ]
