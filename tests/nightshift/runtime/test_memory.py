"""Peak memory, of this process and of one that has ended, on each platform."""

import resource
import subprocess
import sys

import pytest

from nightshift.runtime.memory import peak_memory

MANY = 300 * 2**20


@pytest.mark.parametrize(("platform", "largest"), [("darwin", 2**20), ("linux", 2**10)])
def test_the_peak_of_an_ended_process_is_in_bytes_whatever_the_system_counts(platform, largest):
    usage = resource.struct_rusage((0.0, 0.0, largest, *[0] * 13))
    assert peak_memory(usage, platform) == 2**20


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="macOS counts from the start of a process")
def test_a_process_does_not_count_what_the_one_that_started_it_had():
    ballast = bytearray(MANY)
    script = "from nightshift.runtime.memory import peak_memory; print(peak_memory())"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert len(ballast) == MANY
    assert 2**20 < int(done.stdout) < MANY
