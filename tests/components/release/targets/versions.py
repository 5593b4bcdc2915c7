"""Versions for the tests of targets, where they answer, and processes that are killed between two calls."""

import copy
import dataclasses
import json
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

from components.release.targets import NoAnswerError, VersionShare, Target, rollout

FEATURES, IMAGES, TEXTS = KINDS = ("features", "images", "texts")  # what versions are asked


class Fleet:
    """Versions, and the servers behind the URIs of their packages."""

    def __init__(self) -> None:
        self._kind = FEATURES
        self._parts: dict[tuple[str, int], VersionShare] = {}
        self._servers: dict[str, str] = {}
        self.answers: dict[str, Callable[[], bytes]] = {}  # what versions do in place of their servers, by URI

    def add(self, kind: str, part: VersionShare, server: str) -> None:
        self._parts[kind, part.version.version] = part
        self._servers[part.version.uri] = server

    def of(self, kind: str) -> Self:
        """The same with the versions of another kind."""
        found = copy.copy(self)
        found._kind = kind
        return found

    def parts(self, **shares: float) -> list[VersionShare]:
        """`parts(v1=0.95, v2=0.05)`."""
        return [
            dataclasses.replace(self._parts[self._kind, int(name[1:])], traffic=share) for name, share in shares.items()
        ]

    def broken(self) -> list[VersionShare]:
        """A version whose container does not start."""
        (part,) = self.parts(v2=1)
        version = dataclasses.replace(part.version, version=3, uri="s3://registry/3", sha256="3" * 64)
        return [dataclasses.replace(part, version=version)]

    def wrong(self) -> list[VersionShare]:
        """A version that starts, and answers what its files do not score."""
        (part,) = self.parts(v2=1)
        return [dataclasses.replace(part, score=0.123)]

    @contextmanager
    def silent(self, answer: Callable[[], bytes]) -> Iterator[list[VersionShare]]:
        """A version that starts, and does something else than its server when it is asked."""
        parts = self.broken()
        uri = parts[0].version.uri
        self.answers[uri] = answer
        try:
            yield parts
        finally:
            del self.answers[uri]

    def starts(self, uri: str) -> bool:
        return uri in self._servers or uri in self.answers

    def answer(self, uri: str, body: bytes) -> bytes:
        """What a version's server answers."""
        if uri in self.answers:
            return self.answers[uri]()
        request = urllib.request.Request(
            f"{self._servers[uri]}/invocations", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request) as answer:
            return bytes(answer.read())

    def score(self, uri: str, part: VersionShare) -> float:
        return float(json.loads(self.answer(uri, json.dumps(part.request).encode()))["predictions"][0]["score"])


def downloaded(fleet: Fleet) -> VersionShare:
    """A version as it comes from a tracking server: its files are copied, anywhere."""
    (part,) = fleet.parts(v1=1)
    source = "mlflow-artifacts:/1/abc/artifacts/model"
    return dataclasses.replace(part, version=dataclasses.replace(part.version, uri="/somewhere/copy", source=source))


def page() -> bytes:
    """What a proxy answers for a server that it does not reach."""
    return b"<html>Bad gateway</html>"


def down() -> bytes:
    raise NoAnswerError("it answers 503")


class Killed(BaseException):
    """The process has ended here."""


class Counted:
    """Counts calls, and ends the process before one of them."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.before: int | None = None

    def count(self, name: str) -> None:
        if len(self.calls) == self.before:
            self.before = None
            raise Killed
        self.calls.append(name)

    @property
    def changes(self) -> list[str]:
        """Calls that change something."""
        asking = ("describe", "list", "get", "invoke", "predict", "read")
        return [name for name in self.calls if not name.lower().startswith(asking)]


def killed_everywhere(
    counted: Counted, act: Callable[[], None], reset: Callable[[], None], look: Callable[[], Any]
) -> int:
    """Check that an act that is killed before any of its calls, and then made again, leaves what it leaves at once.

    Returns:
        before how many calls it was killed.
    """
    reset()
    counted.calls.clear()
    act()
    total, wanted = len(counted.calls), look()
    for number in range(total):
        reset()
        counted.calls.clear()
        counted.before = number
        try:
            act()
        except Killed:
            act()
        else:
            raise AssertionError(f"it made fewer than {number} calls this time")
        assert look() == wanted, f"killed before call {number}, {counted.calls[number]}"
    return total


def killed_on_the_way(
    states: list[list[VersionShare]], find: Callable[[], Target], killed: Callable[[Callable[[], None]], int]
) -> int:
    """Go from one state of a release to the next, killed before each call of each; nothing is left in an empty one.

    Args:
        states: one after the other.
        find: gives the target.
        killed: takes an act, see `killed_everywhere`.

    Returns:
        before how many calls it was killed.
    """
    total = 0
    for before, wanted in zip([[], *states], states, strict=False):

        def act(wanted: list[VersionShare] = wanted, before: list[VersionShare] = before) -> None:
            if wanted:
                rollout(find(), wanted, before)
            else:
                find().clean(())

        total += killed(act)
    return total
