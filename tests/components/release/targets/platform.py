"""What the tests of every target need of a platform: a stand-in, and the target that is on it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from components.release.targets import ReleaseTarget
from tests.components.release.targets.versions import KINDS, Fleet, down, page


class Killed(BaseException):
    """The process has ended here."""


class Counted:
    """Counts calls, has others act before one of them, or ends the process there."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.before: int | None = None  # the number of the call before which the process ends
        self.watch: Callable[[], None] | None = None  # called before each call
        self.intrude: Callable[[], None] | None = None  # called before the next one that changes something

    def count(self, name: str) -> None:
        if len(self.calls) == self.before:
            self.before = None
            raise Killed
        self.calls.append(name)
        if self.watch:
            watch, self.watch = self.watch, None
            watch()
            self.watch = watch
        if self.intrude and _changes(name):
            intrude, self.intrude = self.intrude, None
            intrude()

    def clear(self) -> None:
        self.calls.clear()
        self.before = self.watch = self.intrude = None

    @property
    def changes(self) -> list[str]:
        """Calls that change something."""
        return list(filter(_changes, self.calls))


def _changes(name: str) -> bool:
    return not name.lower().startswith(("describe", "list", "get", "invoke", "predict", "read"))


class Platform(ABC):
    """A stand-in of a platform, and the target that is on it.

    Attributes:
        kinds: of the versions that its target is tried with.
        splits: whether two versions can answer.
        asks_first: whether a version is asked before it gets any requests.
        share_calls: how many calls another share takes.
        counts_calls: whether single calls are counted, and not only those of the target.
        percentages: what takes whole percentages, as a person calls it; empty when any share will do.
        failure: what is said of a version that does not start, a regular expression.
        silences: what a version may do that gives no right answer.
        late: what is said when nothing happens for too long.
        many: whether several use cases are on it.
        gpu: settings of a machine with a GPU.
    """

    kinds: Sequence[str] = KINDS
    splits = True
    asks_first = False
    share_calls = 1
    counts_calls = True
    percentages = ""
    failure: str
    silences: Sequence[Callable[[], bytes]] = (down, page)
    late: str
    many = True
    gpu: ClassVar[dict[str, Any]]

    def __init__(self, fleet: Fleet) -> None:
        self.fleet, self.counted = fleet, Counted()

    @abstractmethod
    def target(self, name: str = "fraud", **settings: Any) -> ReleaseTarget:
        """The target of a use case, with settings other than usual."""

    @abstractmethod
    def nowhere(self) -> ReleaseTarget | None:
        """A target whose platform does not answer; None where that is tested elsewhere."""

    @abstractmethod
    def standing_still(self) -> AbstractContextManager[ReleaseTarget]:
        """A target on a platform where nothing happens."""

    @abstractmethod
    def state(self) -> Any:
        """All that there is."""

    @abstractmethod
    def clear(self) -> None:
        """Take everything away."""

    @abstractmethod
    def saved(self) -> Callable[[], None]:
        """A function that makes everything as it is now."""

    def versions(self) -> set[int]:
        """The versions of which anything is there."""
        return set(self.shares())

    def shares(self) -> dict[int, float]:
        """Which versions get requests now, without waiting for anything."""
        return self.target().serving()

    def intrude(self) -> None:
        """Change what the target has made, as somebody else would while it works; refused where that is found out."""
        raise NotImplementedError

    @property
    def foreign(self) -> Sequence[tuple[Callable[[], None], str]]:
        """Ways to have somebody else's thing bear our name, and what is said of it."""
        return ()

    def command(self) -> list[str]:
        """What the only container is told."""
        raise NotImplementedError
