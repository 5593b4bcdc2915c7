"""Model servers in a thread of the test, called over HTTP."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path

import pytest

from nightshift import storage
from nightshift.contracts.package import load as load_manifest
from nightshift.http.bearer import Bearer
from nightshift.serving.application import Application
from nightshift.serving.batching import ServerLimits
from nightshift.serving.files import Challenger, DeploymentPointer, read_pointer
from nightshift.serving.prediction_log import PredictionLog
from nightshift.serving.versions import ModelManager, load
from nightshift_testkit.fixtures import save
from tests.nightshift.http.echo import answering


class Running:
    """A server: its URL, what it serves, and the file that says what it should."""

    def __init__(self, current: ModelManager, url: str, pointer: Path) -> None:
        self.current, self.url, self.pointer = current, url, pointer


@contextmanager
def serving(
    package: str,
    pointer: Path,
    limits: ServerLimits = ServerLimits(),  # noqa: B008 frozen
    token: str | None = None,
    aliases: Mapping[str, str] | None = None,
    snapshot: str | None = None,
    predictions: PredictionLog | None = None,
) -> Iterator[Running]:
    """Serve a package as version 1 of `fraud`, over a snapshot if one is given."""
    point(pointer, 1, package, snapshot)
    state = str(pointer.parent / "state")
    current = ModelManager(partial(read_pointer, str(pointer)), partial(load, "fraud", limits=limits), state)
    try:
        bearer = None
        if token:
            (pointer.parent / "token").write_text(f"{token}\n")
            bearer = Bearer(str(pointer.parent / "token"))
        with answering(Application(current, limits, bearer, aliases, predictions=predictions)) as url:
            yield Running(current, url, pointer)
    finally:
        current.close()


def point(
    pointer: Path, version: int, package: str, snapshot: str | None = None, challenger: Challenger | None = None
) -> None:
    """Say what is to be served."""
    sha256 = load_manifest(package).sha256
    deployed = DeploymentPointer(version, package, sha256, "2018-08-01T00:00:00+00:00", snapshot, challenger)
    storage.write_json(str(pointer), asdict(deployed))


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URI of a tiny model: `sigmoid(inputs @ [0.1, 0.1, 0.2, 0.3])`."""
    return save(tmp_path_factory.mktemp("package"), 0.1)


@pytest.fixture(scope="module")
def running(package: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server as it is without flags, for all tests of a file."""
    with serving(package, tmp_path_factory.mktemp("pointer") / "current.json") as running:
        yield running


@pytest.fixture(scope="module")
def url(running: Running) -> str:
    return running.url


@pytest.fixture
def serve(package: str, tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """A server of one's own: `serve(limits=..., token=..., aliases=...)`."""
    with ExitStack() as stack:
        yield lambda uri=package, **options: stack.enter_context(serving(uri, tmp_path / "current.json", **options))
