"""Requests that are nearly right, at random; for longer: `python -m benchmarks.fuzz`."""

from pathlib import Path

import pytest

from benchmarks.fuzz import fuzz
from benchmarks.serving import model


@pytest.mark.parametrize("seed", [0])
def test_no_request_breaks_the_server_or_its_state(tmp_path: Path, seed: int) -> None:
    model.write(tmp_path)
    found = fuzz(tmp_path, 4000, seed)
    assert found.wrong == []
    assert found.differing == 0
    assert found.acknowledged
    assert {200, 400} <= set(found.statuses)
    assert found.memory[1] < 1.2 * found.memory[0]
