"""Clients that stay connected and are slow; for more of them: `python -m benchmarks.serving.connections`."""

from pathlib import Path

import pytest

from benchmarks.serving.connections import BEYOND, measure

pytestmark = pytest.mark.slow


def test_slow_clients_hold_little_memory_and_are_answered_and_those_beyond_the_limit_are_refused(
    tmp_path: Path,
) -> None:
    outcome = measure(tmp_path, 500)
    assert outcome.statuses == {200: 2 * 499}
    assert outcome.refusals == {503: BEYOND}
    assert outcome.bytes_each < 32 * 1024
