"""Versions that take over under load, for a minute; for longer: `python -m benchmarks.serving.soak`."""

from pathlib import Path

from benchmarks.serving.soak import soak


def test_a_minute_of_load_and_swaps_fails_no_request_serves_nothing_withdrawn_and_takes_no_more_memory(
    tmp_path: Path,
) -> None:
    run = soak(tmp_path, seconds=60, every=3, rate=200)
    assert (run.errors, run.stale) == ({}, 0)
    assert run.requests > 1_000
    assert run.swaps >= 5
    assert run.growth < 0.1
