"""Versions that answer: two real servers of tiny models for each kind of model."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from components.release.targets import VersionShare
from nightshift.contracts import package
from nightshift.local import examples
from nightshift.registry import Version
from nightshift_testkit.fixtures import save
from tests.components import pictures, topics
from tests.components.release.targets.versions import FEATURES, IMAGES, KINDS, TEXTS, Fleet
from tests.nightshift.serving.conftest import serving


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """The versions 1 and 2 of each kind, and their servers."""
    fleet, folder = Fleet(), tmp_path_factory.mktemp("fleet")
    pictures.lake(folder, pictures.file())
    topics.lake(folder, "flights and hotels")
    save_as = {FEATURES: lambda folder, number: save(folder, number / 10), IMAGES: pictures.model, TEXTS: topics.model}
    with ExitStack() as stack:
        for kind, name in zip(KINDS, ("fraud", "shapes", "topics"), strict=True):
            for number in (1, 2):
                uri = save_as[kind](folder / f"{kind}-{number}", number)
                running = stack.enter_context(serving(uri, folder / f"{kind}-{number}.json"))
                example = examples.build_stateless(str(folder / "lake"), name, uri)
                version = Version("fraud", number, f"s3://registry/{kind}/{number}", package.load(uri).sha256, {})
                fleet.add(kind, VersionShare(version, 1.0, example.request, example.score), running.url)
        yield fleet
