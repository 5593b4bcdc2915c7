"""Nights that two modules look at: a champion, days that are scored and monitored, and what each step pushes."""

from collections.abc import Iterator

import pytest
import yaml

from nightshift_testkit.collectors import Collector, collecting
from nightshift_testkit.prometheus import pushgateway
from tests.e2e.nights import DRIFTED, STABLE, TRAINED, Nights, config


@pytest.fixture(scope="session")
def gateway() -> Iterator[str]:
    """The URL of a push gateway that all steps push to."""
    with pushgateway() as url:
        yield url


@pytest.fixture(scope="session")
def collector() -> Iterator[Collector]:
    """The receiver of what the training reports of itself."""
    with collecting() as collector:
        yield collector


@pytest.fixture(scope="session")
def nights(tmp_path_factory: pytest.TempPathFactory, gateway: str, collector: Collector) -> Iterator[Nights]:
    """A workspace with a champion that is served."""
    folder = tmp_path_factory.mktemp("nights")
    (folder / "fraud.yaml").write_text(yaml.safe_dump(config()))
    workspace = Nights(folder, gateway)
    workspace.run("training", TRAINED, OPENLINEAGE_URL=collector.url, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url)
    yield workspace
    workspace.nightshift("stop")


@pytest.fixture(scope="session")
def scored(nights: Nights) -> dict[str, str]:
    """What the scoring of each stable day has printed."""
    return {day: nights.run("scoring", day) for day in STABLE}


@pytest.fixture(scope="session")
def monitored(nights: Nights, scored: dict[str, str]) -> dict[str, str]:
    """What the monitoring of each day has printed, after the scoring."""
    return {day: nights.run("monitoring", day) for day in (*STABLE, *DRIFTED)}
