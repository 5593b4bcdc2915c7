"""Versions for the tests of targets, and the servers that answer for them."""

import copy
import dataclasses
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self

from components.release.targets import NoAnswerError, VersionShare

FEATURES, IMAGES, TEXTS = KINDS = ("features", "images", "texts")  # what versions are asked


class Fleet:
    """Versions, and the servers behind the URIs of their packages."""

    def __init__(self) -> None:
        self._kind = FEATURES
        self._versions: dict[tuple[str, int], VersionShare] = {}
        self._servers: dict[str, str] = {}
        self._answers: dict[str, Callable[[], bytes]] = {}  # what versions do in place of their servers, by URI

    def add(self, kind: str, version: VersionShare, server: str) -> None:
        self._versions[kind, version.version.version] = version
        self._servers[version.version.uri] = server

    def select_kind(self, kind: str) -> Self:
        """The same with the versions of another kind."""
        fleet = copy.copy(self)
        fleet._kind = kind
        return fleet

    def split(self, **shares: float) -> list[VersionShare]:
        """`split(v1=0.95, v2=0.05)`."""
        return [
            dataclasses.replace(self._versions[self._kind, int(name[1:])], traffic=traffic)
            for name, traffic in shares.items()
        ]

    def broken(self) -> VersionShare:
        """A version whose container does not start."""
        (share,) = self.split(v2=1)
        version = dataclasses.replace(share.version, version=3, uri="s3://registry/3", sha256="3" * 64)
        return dataclasses.replace(share, version=version)

    def wrong(self) -> VersionShare:
        """A version that starts, and answers what its files do not score."""
        return dataclasses.replace(self.split(v2=1)[0], score=0.123)

    @contextmanager
    def silent(self, answer: Callable[[], bytes]) -> Iterator[VersionShare]:
        """A version that starts, and does something else than its server when it is asked."""
        share = self.broken()
        self._answers[share.version.uri] = answer
        try:
            yield share
        finally:
            del self._answers[share.version.uri]

    def downloaded(self, uri: str) -> VersionShare:
        """A version as it comes from a tracking server, which keeps its files at a URI: they are copied, anywhere."""
        (share,) = self.split(v1=1)
        self._servers[uri] = self._servers[share.version.uri]
        source = "mlflow-artifacts:/1/abc/artifacts/model"
        version = dataclasses.replace(share.version, uri="/somewhere/copy", source=source)
        return dataclasses.replace(share, version=version)

    def starts(self, uri: str) -> bool:
        return uri in self._servers or uri in self._answers

    def answer(self, uri: str, body: bytes) -> bytes:
        """What a version's server answers."""
        if uri in self._answers:
            return self._answers[uri]()
        json_type = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self._servers[uri]}/invocations", body, json_type)
        with urllib.request.urlopen(request) as answer:
            return bytes(answer.read())


def page() -> bytes:
    """What a proxy answers for a server that it does not reach."""
    return b"<html>Bad gateway</html>"


def down() -> bytes:
    raise NoAnswerError("it answers 503")
