import pytest

from nightshift import registry
from nightshift.contracts.state import DeploymentTarget, State
from nightshift.local import endpoint, examples
from nightshift_testkit import servers


@pytest.fixture
def free_port():
    """A port that was free a moment ago."""
    return servers.free_port()


@pytest.fixture
def state(stocked, tmp_path):
    """Where the stocked registry's models are served."""
    roots = {name: str(tmp_path / name) for name in ("lake", "runs", "audit", "checkpoints")}
    return State(registry=stocked, target=DeploymentTarget.LOCAL, **roots)


@pytest.fixture
def serve(stocked, state, free_port):
    """Have a real server process serve a version of `fraud`; it is ended afterwards."""

    def start_or_update(number: int, name: str = "fraud"):
        version = registry.find(stocked, name, number)
        return endpoint.start_or_update(state, version, examples.build_stateless("", "fraud", version.uri), free_port)

    yield start_or_update
    endpoint.stop(stocked)
