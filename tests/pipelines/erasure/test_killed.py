"""An erasure that is killed and run again ends as one that nobody disturbed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_an_erasure_that_is_killed_anywhere_ends_in_the_same_state_when_it_is_run_again() -> None:
    command = [sys.executable, "-m", "tests.pipelines.erasure.killing", "2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)

    report = json.loads(done.stdout)
    assert (report["killed"], report["lost"], report["orphans"]) == (2, [], [])
    assert report["points"] > 300
