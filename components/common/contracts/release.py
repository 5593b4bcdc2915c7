"""The release record: which version of a use case's model is live, since when and why, and what was before."""

from datetime import date, datetime
from enum import StrEnum
from typing import Literal

from pydantic import Field

from components.common.contracts.artifact import Artifact, Part


class Action(StrEnum):
    """What made a version live."""

    PROMOTED = "promoted"
    ROLLED_BACK = "rolled_back"


class Served(Part):
    """A version that takes traffic."""

    version: int = Field(description="its number in the registry")
    sha256: str = Field(description="identity of the model")
    traffic: float = Field(1.0, gt=0, le=1, description="share of the requests that it answers")
    trained_until: date | None = Field(None, description="last day of its training data")


class Entry(Part):
    """One state of a release, and what led to it."""

    stage: Literal["live"] = Field("live", description="live: its versions answer all requests")
    versions: list[Served] = Field(min_length=1, description="the live version first")
    action: Action = Field(description="what made the first of the versions live")
    since: datetime = Field(description="when, UTC")
    by: str = Field(description="user who did it")
    run: str = Field("", description="id of the run that did it; empty when it was done by hand")
    reasons: list[str] = Field([], description="the verdict behind it, one sentence each")

    @property
    def live(self) -> Served:
        """The version that counts as the champion."""
        return self.versions[0]


class Release(Entry, Artifact):
    """The release record of a use case. It only grows: the newest state is its own, all before are the history."""

    use_case: str = Field(description="name in the config")
    history: list[Entry] = Field([], description="the states before this one, oldest first")

    def followed_by(self, entry: Entry) -> "Release":
        """Return the record with a new state."""
        current = Entry(**{name: getattr(self, name) for name in Entry.model_fields})
        return self.model_copy(update=dict(entry) | {"history": [*self.history, current]})

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
        """The versions that somebody took out of service and nobody promoted since."""
        out: set[int] = set()
        before: int | None = None
        for entry in self.entries:
            if entry.action is Action.ROLLED_BACK and before is not None:
                out.add(before)
            before = entry.live.version
            out.discard(before)
        return out
