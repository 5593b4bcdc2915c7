"""Requests that are nearly right, at random; for longer: `python -m tests.nightly.fuzz`."""

from pathlib import Path

import pytest

from benchmarks.serving import model
from tests.nightly.fuzz import fuzz

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("seed", [0])
def test_no_request_breaks_the_server_or_its_state(tmp_path: Path, seed: int) -> None:
    model.write(tmp_path)
    run = fuzz(tmp_path, 4000, seed)
    assert run.wrong == []
    assert run.differing == 0
    assert run.acknowledged
    assert {200, 400} <= set(run.statuses)
    assert run.memory[1] < 1.2 * run.memory[0]
