"""What is peculiar to this machine; the rest is in `test_targets.py`."""

from pathlib import Path
from unittest.mock import ANY

import pytest

from components.release.targets import rollout
from nightshift import registry
from nightshift.local import endpoint
from nightshift.serving import files
from nightshift.serving.files import Challenger
from nightshift_testkit.processes import wait_until
from tests.components.release.targets import local
from tests.components.release.targets.versions import Fleet

pytestmark = pytest.mark.slow


def test_one_server_goes_from_version_to_version_by_its_pointer(fleet: Fleet, tmp_path: Path) -> None:
    with local.platform(fleet, tmp_path) as machine:
        target, versions, folder = machine.target(), machine.fleet, machine.fleet.registry
        rollout(target, versions.split(v1=1))
        process = endpoint.find_running(folder, "fraud")
        rollout(target, versions.split(v1=0.75, v2=0.25))
        challenger = registry.find(folder, "fraud", 2)
        expected = Challenger(2, challenger.uri, ANY, 0.25)
        assert endpoint.find_challenger(folder, registry.find(folder, "fraud", 1)) == expected

        # another roll-out was killed after it wrote the pointer: the server follows it in a moment
        pointer = Path(files.pointer_uri(folder, "fraud"))
        before = pointer.read_bytes()
        rollout(target, versions.split(v2=1))
        pointer.write_bytes(before)
        rollout(target, versions.split(v2=1))
        assert endpoint.find_version(folder, "fraud") == 2
        wait_until(lambda: target.serving() == {2: 1}, "the server serves version 2 alone")
        assert endpoint.find_running(folder, "fraud") == process
    assert endpoint.find_running(folder, "fraud") is None
