"""What becomes of the steps when the engine is killed, with real processes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.pipelines.samples import compiled_file, shell

# a step, and a process that the step itself has started
SLEEPERS = 'sleep 300 & echo $! > "{0}/child"; echo $$ > "{0}/step"; wait'


def within(seconds: float, condition: Callable[[], bool]) -> bool:
    """Wait until something is so."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def alive(pid_file: Path) -> bool:
    """Tell whether a process goes on; one that nobody has waited for yet does not."""
    status = Path(f"/proc/{pid_file.read_text().strip()}/stat")
    return status.exists() and status.read_text().rsplit(")", 1)[1].split()[0] != "Z"


def holds(process: int, file: Path) -> bool:
    """Tell whether a process has a file open."""
    return any(link.resolve() == file for link in Path(f"/proc/{process}/fd").iterdir())


@pytest.fixture
def run(tmp_path: Path) -> "Callable[[], subprocess.Popen[bytes]]":
    """Start a run whose only step sleeps for minutes, in two processes; returns once it does."""

    def pipeline(date: str) -> None:
        shell(script=SLEEPERS.format(tmp_path))

    compiled = str(compiled_file(pipeline, tmp_path))

    def start() -> "subprocess.Popen[bytes]":
        (tmp_path / "step").unlink(missing_ok=True)
        words = ["run", compiled, "--workspace", str(tmp_path), "--date", "2025-01-01"]
        engine = subprocess.Popen([sys.executable, "-m", "pipelines.cli", *words], stdout=subprocess.DEVNULL)
        assert within(20, lambda: (tmp_path / "step").exists() and bool((tmp_path / "step").read_text()))
        return engine

    return start


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks processes up in /proc")
@pytest.mark.parametrize("signal_number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_steps_and_what_they_started_end_with_the_engine(
    run: "Callable[[], subprocess.Popen[bytes]]", signal_number: signal.Signals, tmp_path: Path
) -> None:
    engine = run()
    before = [alive(tmp_path / name) for name in ("step", "child")]

    engine.send_signal(signal_number)
    engine.wait()

    assert before == [True, True]
    assert within(5, lambda: not alive(tmp_path / "step") and not alive(tmp_path / "child"))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks processes up in /proc")
def test_who_ends_the_steps_of_a_killed_engine_has_its_lock_until_then(
    run: "Callable[[], subprocess.Popen[bytes]]", tmp_path: Path
) -> None:
    engine = run()
    step = int((tmp_path / "step").read_text())
    lock = tmp_path / "runs/.locks/sample-2025-01-01"

    assert [holds(process, lock) for process in (engine.pid, os.getpgid(step), step)] == [True, True, False]

    engine.kill()
    engine.wait()
    # the next run is let in
    again = run()
    again.kill()
    again.wait()


def test_what_a_run_left_that_was_killed_before_its_record_is_removed_by_the_next(tmp_path: Path) -> None:
    def pipeline(date: str) -> None:
        shell(script="true")

    words = ["run", str(compiled_file(pipeline, tmp_path)), "--workspace", str(tmp_path), "--date", "2025-01-01"]
    command = [sys.executable, "-m", "pipelines.cli", *words]
    subprocess.run(command, check=True, capture_output=True)
    (whole,) = (tmp_path / "runs").glob("sample-*")
    left = whole.with_name("sample-2025-01-01-20250102T000000000000")
    left.mkdir()
    (left / "pipeline.yaml.tmp").write_text("half")
    (tmp_path / "runs/.locks/sample-2025-01-01").write_text(left.name)

    subprocess.run(command, check=True, capture_output=True)

    assert not left.exists()
    assert whole.exists()
