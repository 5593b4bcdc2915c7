"""Versions that answer: three real servers of tiny models, of which the third does not keep what it promises."""

from collections.abc import Iterator
from contextlib import ExitStack

import pandas as pd
import pytest

from components.common.contracts import package
from components.common.registry import Version
from components.release.targets import Part
from components.tabular.inputs import Scorer
from tests.components.release.targets.versions import Fleet
from tests.components.serving.conftest import serving
from tests.conftest import save

EVENT = {"amount": 1.0, "customer_count_1d": 2.0, "channel": "shop"}


@pytest.fixture(scope="session")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """The versions 1 and 2, and their servers."""
    found = Fleet()
    with ExitStack() as stack:
        for number, weight in ((1, 0.1), (2, 0.7)):
            folder = tmp_path_factory.mktemp(f"version-{number}")
            uri = save(folder, weight)
            running = stack.enter_context(serving(uri, folder / "current.json"))
            manifest = package.load(uri)
            (score,) = Scorer(uri, manifest).score(pd.DataFrame([EVENT]))
            version = Version("fraud", number, f"s3://registry/{number}", manifest.sha256, {})
            found.add(Part(version, 1.0, {"instances": [EVENT]}, float(score)), running.url)
        yield found
