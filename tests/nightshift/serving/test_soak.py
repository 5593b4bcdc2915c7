"""Versions that take over under load, for twenty seconds; for longer: `python -m tests.nightly.soak`."""

from pathlib import Path

import pytest

from tests.nightly.soak import soak

pytestmark = pytest.mark.slow


def test_load_and_swaps_fail_no_request_serve_nothing_withdrawn_and_take_no_more_memory(
    tmp_path: Path,
) -> None:
    run = soak(tmp_path, seconds=20, every=2, rate=200)
    assert (run.errors, run.stale) == ({}, 0)
    assert run.requests > 1_000
    assert run.swaps >= 5
    assert run.growth < 0.1
