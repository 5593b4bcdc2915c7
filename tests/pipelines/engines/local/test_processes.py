"""What becomes of the steps when the engine is killed, with real processes."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from nightshift_testkit.processes import content, engine, started, wait_until
from tests.pipelines.samples import one_step_a_day, run_of

pytestmark = pytest.mark.slow

# a step, and a process that the step itself has started
SLEEPERS = 'sleep 600 & echo $! > "{0}/child"; echo $$ > "{0}/step"; wait'


def alive(pid_file: Path) -> bool:
    """Return whether a process goes on; one that nobody has waited for yet does not."""
    status = Path(f"/proc/{pid_file.read_text().strip()}/stat")
    return status.exists() and status.read_text().rsplit(")", 1)[1].split()[0] != "Z"


def holds(process: int, file: Path) -> bool:
    """Return whether a process has a file open."""
    return any(link.resolve() == file for link in Path(f"/proc/{process}/fd").iterdir())


@pytest.fixture
def run(tmp_path: Path) -> "Iterator[Callable[[], subprocess.Popen[bytes]]]":
    """Start a run whose only step sleeps for minutes, in two processes, and return once it does."""
    stack = ExitStack()

    words = run_of(one_step_a_day(SLEEPERS.format(tmp_path)), tmp_path, "--date", "2025-01-01")

    def start() -> "subprocess.Popen[bytes]":
        (tmp_path / "step").unlink(missing_ok=True)
        process = stack.enter_context(started(engine(*words), stdout=subprocess.DEVNULL))
        content(tmp_path / "step")
        return process

    with stack:
        yield start
    for name in ("step", "child"):
        with suppress(ProcessLookupError):
            os.kill(int((tmp_path / name).read_text()), signal.SIGKILL)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks processes up in /proc")
@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_steps_and_what_they_started_end_with_the_engine(
    run: "Callable[[], subprocess.Popen[bytes]]", signal_number: signal.Signals, tmp_path: Path
) -> None:
    process = run()
    before = [alive(tmp_path / name) for name in ("step", "child")]

    process.send_signal(signal_number)
    process.wait()

    assert before == [True, True]
    wait_until(lambda: not alive(tmp_path / "step") and not alive(tmp_path / "child"), "both have ended")


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks processes up in /proc")
def test_who_ends_the_steps_of_a_killed_engine_has_its_lock_until_then(
    run: "Callable[[], subprocess.Popen[bytes]]", tmp_path: Path
) -> None:
    killed = run()
    step = int((tmp_path / "step").read_text())
    lock = tmp_path / "runs/.locks/sample-2025-01-01"

    assert [holds(process, lock) for process in (killed.pid, os.getpgid(step), step)] == [True, True, False]

    killed.kill()
    killed.wait()
    run()  # the next one is let in


def test_what_a_run_left_that_was_killed_before_its_record_is_removed_by_the_next(tmp_path: Path) -> None:
    command = engine(*run_of(one_step_a_day("true"), tmp_path, "--date", "2025-01-01"))
    subprocess.run(command, check=True, capture_output=True)
    (whole,) = (tmp_path / "runs").glob("sample-*")
    left = whole.with_name("sample-2025-01-01-20250102T000000000000")
    left.mkdir()
    (left / "pipeline.yaml.tmp").write_text("half")
    (tmp_path / "runs/.locks/sample-2025-01-01").write_text(left.name)

    subprocess.run(command, check=True, capture_output=True)

    assert not left.exists()
    assert whole.exists()
