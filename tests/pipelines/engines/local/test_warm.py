"""Steps as forks of one process: as good as processes of their own."""

import json
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from pipelines import ir
from pipelines.engines.local.warm import Forks, Server
from tests.pipelines.samples import compiled_file, shell
from tests.processes import content, started, wait_until

PROBE = ["python", "-m", "tests.pipelines.engines.local.probe"]
LARGE = 300 * 2**20
pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks processes up in /proc")


@pytest.fixture
def task(tmp_path: Path) -> ir.Task:
    def pipeline(date: str) -> None:
        shell(script="true")

    (task,) = ir.load(compiled_file(pipeline, tmp_path)).tasks
    return replace(task, environment={"COLOUR": "green"})


@pytest.fixture(scope="module")
def server():
    # without libraries, the same in less time
    with Server(libraries=()) as server:
        yield server


@pytest.fixture
def forks(server):
    with Forks(server=server) as forks:
        yield forks


def gone(process: int) -> bool:
    """Return whether a process has ended, waited for or not."""
    status = Path(f"/proc/{process}/stat")
    return not status.exists() or status.read_text().rsplit(")", 1)[1].split()[0] == "Z"


@pytest.mark.parametrize(
    ("words", "code", "last"),
    [
        (["exit", "0"], 0, "and on stderr"),
        (["exit", "2"], 2, "and on stderr"),
        (["say"], 1, "the last word"),
        (["raise"], 1, "ValueError: of no use"),
        (["kill"], -signal.SIGKILL, "and on stderr"),
    ],
)
def test_a_fork_ends_and_prints_as_a_process_does(forks, task, tmp_path, words, code, last):
    log = tmp_path / "log.txt"
    log.write_text("first\n")

    assert forks.run(task, [*PROBE, *words], log)[0] == code

    first, said, *_ = lines = log.read_text().splitlines()
    assert (first, lines[-1]) == ("first", last)
    assert json.loads(said) == {"arguments": words[1:], "colour": "green", "home": True}


def test_what_is_no_component_runs_as_a_process(forks, task, tmp_path):
    assert forks.run(task, ["sh", "-c", "echo $COLOUR; exit 7"], tmp_path / "log.txt")[0] == 7
    assert (tmp_path / "log.txt").read_text() == "green\n"


def test_each_fork_has_a_peak_memory_of_its_own(forks, task, tmp_path):
    large = forks.run(task, [*PROBE, "fill", str(LARGE)], tmp_path / "log.txt")[1]
    small = forks.run(task, [*PROBE, "fill", "1"], tmp_path / "log.txt")[1]
    assert large > LARGE > small > 2**20


def test_forks_run_side_by_side_and_end_when_they_are_asked_to(forks, task, tmp_path):
    pids = [tmp_path / name for name in ("one", "two")]
    with ThreadPoolExecutor() as pool:
        runs = [pool.submit(forks.run, task, [*PROBE, "wait", str(pid)], tmp_path / "log.txt") for pid in pids]
        for pid in pids:
            content(pid)
        forks.stop()
        assert [run.result()[0] for run in runs] == [-signal.SIGTERM] * 2


def test_forks_and_what_they_started_end_with_the_block(server, task, tmp_path):
    with ThreadPoolExecutor() as pool:
        with Forks(server=server) as forks:
            run = pool.submit(forks.run, task, [*PROBE, "wait", str(tmp_path / "pids")], tmp_path / "log.txt")
            pids = [int(pid) for pid in content(tmp_path / "pids").split()]
        assert run.result() == (-signal.SIGKILL, 0)
    for pid in pids:
        wait_until(lambda pid=pid: gone(pid), f"{pid} has ended")


def test_a_step_runs_as_a_process_when_the_server_is_gone(task, tmp_path):
    with Server(libraries=()) as server, Forks(server=server) as forks:
        server.process.kill()
        server.process.wait()
        assert forks.run(task, [*PROBE, "exit", "3"], tmp_path / "log.txt")[0] == 3


ENGINE = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from pipelines import ir
from pipelines.engines.local.warm import Forks, Server
(task,) = ir.load(Path(sys.argv[1])).tasks
with Server(libraries=()) as server, Forks(server=server) as forks:
    Path(sys.argv[2]).write_text(str(server.process.pid))
    forks.run(task, sys.argv[4:], Path(sys.argv[3]))
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_server_and_its_forks_end_with_the_engine(tmp_path, task, number):
    files = [str(tmp_path / name) for name in ("sample.yaml", "server", "log.txt")]
    files[0] = str(next(tmp_path.glob("*.yaml")))
    command = [sys.executable, "-c", ENGINE, *files, *PROBE, "wait", str(tmp_path / "pids")]
    with ExitStack() as stack:
        engine = stack.enter_context(started(command))
        pids = [int(pid) for pid in f"{content(tmp_path / 'pids')} {content(tmp_path / 'server')}".split()]
        for pid in pids:
            assert not gone(pid)
        os.kill(engine.pid, number)
        engine.wait()
        for pid in pids:
            wait_until(lambda pid=pid: gone(pid), f"{pid} has ended")
