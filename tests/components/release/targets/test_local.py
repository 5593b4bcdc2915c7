"""Releases on this machine: a real registry and a real server process."""

import dataclasses
from pathlib import Path
from unittest.mock import ANY

import pytest

from components.release.targets import VersionShare, rollout
from components.release.targets.local import Local
from nightshift import registry
from nightshift.contracts.state import State
from nightshift.errors import UserError
from nightshift.local import endpoint, examples
from nightshift.serving import files
from nightshift.serving.files import Challenger
from tests.components.states import state
from tests.servers import free_port


def part(folder: str, number: int, traffic: float = 1.0) -> VersionShare:
    version = registry.find(folder, "fraud", number)
    found = examples.without_state("", "fraud", version.uri)
    return VersionShare(version, traffic, found.request, found.score)


def test_the_server_moves_on_to_a_version_that_is_right_and_stays_with_the_old_one_otherwise(
    stocked: str, tmp_path: Path
) -> None:
    target = Local(State.parse(state(tmp_path, registry=stocked, target="local")), "fraud", free_port())
    assert target.serving() == {}
    try:
        rollout(target, [part(stocked, 1)])
        assert target.serving() == {1: 1.0}
        process = endpoint.running(stocked, "fraud")

        rollout(target, [part(stocked, 2)], [part(stocked, 1)])
        assert target.serving() == {2: 1.0}
        assert endpoint.running(stocked, "fraud") == process

        rollout(target, [part(stocked, 2, 0.75), part(stocked, 3, 0.25)], [part(stocked, 2)])
        assert target.serving() == {2: 0.75, 3: 0.25}
        champion = registry.find(stocked, "fraud", 2)
        assert endpoint.beside(stocked, champion) == Challenger(3, part(stocked, 3).version.uri, ANY, 0.25)
        rollout(target, [part(stocked, 2)], [part(stocked, 2, 0.75), part(stocked, 3, 0.25)])
        assert target.serving() == {2: 1.0}

        # killed after the pointer was written, before anybody looked: the server has moved on, or will
        before = Path(files.pointer_uri(stocked, "fraud")).read_bytes()
        rollout(target, [part(stocked, 1)], [part(stocked, 2)])
        Path(files.pointer_uri(stocked, "fraud")).write_bytes(before)
        rollout(target, [part(stocked, 2)], [part(stocked, 1)])
        assert target.serving() == {2: 1.0}

        wrong = dataclasses.replace(part(stocked, 3), score=0.123)
        with pytest.raises(UserError, match=r"where its files score 0\.123"):
            rollout(target, [wrong], [part(stocked, 2)])
        assert target.serving() == {2: 1.0}

        damaged = part(stocked, 3)
        for graph in Path(damaged.version.uri).glob("*.onnx"):
            graph.write_bytes(b"damaged")
        with pytest.raises(UserError, match="is not the file that"):
            rollout(target, [damaged], [part(stocked, 2)])
        assert target.serving() == {2: 1.0}
    finally:
        target.clean(())
    assert endpoint.running(stocked, "fraud") is None
