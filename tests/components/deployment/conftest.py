import pytest

from components.common import registry
from components.deployment import endpoint
from tests import servers


@pytest.fixture
def free_port():
    """A port that was free a moment ago."""
    return servers.free_port()


@pytest.fixture
def serve(stocked, free_port):
    """Have a real server process serve a version of `fraud`; it is ended afterwards."""

    def start_or_update(number: int, name: str = "fraud"):
        version = registry.find(stocked, name, number)
        return endpoint.start_or_update(stocked, version, endpoint.example(version.uri), free_port)

    yield start_or_update
    endpoint.stop(stocked)
