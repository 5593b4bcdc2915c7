"""Steps as forks of one process: as good as processes of their own."""

import json
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from kfp import dsl

from nightshift_testkit.processes import content, started, wait_until
from pipelines import ir
from pipelines.engines.local import runs
from pipelines.engines.local.forkserver import level
from pipelines.engines.local.run import Run
from pipelines.engines.local.warm import Forks, ForkServer
from tests.pipelines.samples import Silent, compiled, compiled_file, one_step

PROBE = ["python", "-m", "tests.pipelines.engines.local.probe"]
LARGE = 300 * 2**20
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks processes up in /proc"),
]


@dsl.container_component
def probe() -> dsl.ContainerSpec:
    return dsl.ContainerSpec(image="alpine:3", command=[*PROBE, "exit", "0"])


def probing() -> None:
    probe()


@pytest.fixture
def task(tmp_path: Path) -> ir.PipelineTask:
    (task,) = ir.load(compiled_file(one_step("true"), tmp_path)).tasks
    return replace(task, environment={"COLOUR": "green"})


@pytest.fixture
def server():
    with ForkServer() as server:
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

    first, described, *_ = lines = log.read_text().splitlines()
    assert (first, lines[-1]) == ("first", last)
    assert json.loads(described) == {"arguments": words[1:], "colour": "green", "home": True}


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


def imported(server: ForkServer, group: int, level: int, log: Path) -> set[str]:
    """Return which libraries a fork of a level finds imported."""
    words = ["imported", "nightshift.config", "pandas", "scipy.stats"]
    request = {"module": PROBE[2], "arguments": words, "environment": dict(os.environ), "group": group}
    with log.open("wb") as output:
        assert server.run(level, request, output.fileno())[0] == 0
    return set(log.read_text().splitlines()[-1].split())


def test_a_fork_holds_what_its_level_imports_and_no_more(forks, server, tmp_path):
    server.prepare(level("components.features"), dict(os.environ))
    log = tmp_path / "log.txt"

    assert imported(server, forks.group, level("components.features"), log) == {"nightshift.config", "pandas"}
    assert imported(server, forks.group, level("components.reporting"), log) == {"nightshift.config"}
    assert imported(server, forks.group, level(PROBE[2]), log) == set()


def test_libraries_that_cannot_be_imported_are_left_to_the_steps(forks, server, tmp_path):
    (tmp_path / "jinja2.py").write_text("raise OSError('a part of it is missing')")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    server.prepare(1, os.environ | {"PYTHONPATH": path})

    assert imported(server, forks.group, 1, tmp_path / "log.txt") == {"nightshift.config"}


def test_a_step_that_waits_for_its_libraries_does_not_start_once_all_are_asked_to_end(forks, server, task, tmp_path):
    mark = tmp_path / "mark"
    (tmp_path / "jinja2.py").write_text(f"import time\nopen({str(mark)!r}, 'w').write('x')\ntime.sleep(600)")
    path = os.pathsep.join([str(tmp_path), *sys.path])
    slow = replace(task, environment={"PYTHONPATH": path})
    command = ["python", "-m", "components.reporting", "--help"]
    with ThreadPoolExecutor() as pool:
        run = pool.submit(forks.run, slow, command, tmp_path / "log.txt")
        content(mark)
        forks.stop()
        assert run.result()[0] < 0
    assert (tmp_path / "log.txt").read_text() == ""


def test_a_run_whose_steps_are_no_components_starts_no_server(server, tmp_path):
    run = Run(compiled(one_step("true"), tmp_path), {}, tmp_path / "run")

    assert runs.use_forks(run, server).execute(Silent())
    assert server.process is None


def test_the_components_of_a_run_are_forks(server, tmp_path):
    run = Run(compiled(probing, tmp_path), {}, tmp_path / "run")

    assert runs.use_forks(run, server).execute(Silent())
    assert server.process


def test_steps_in_containers_are_no_forks(server, tmp_path):
    run = runs.use_containers(Run(compiled(probing, tmp_path), {}, tmp_path / "run"))

    assert runs.use_forks(run, server) is run


class Recorded(ForkServer):
    """Runs nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.levels: list[int] = []

    def prepare(self, level: int, variables: dict[str, str]) -> None:
        self.levels.append(level)

    def run(self, level: int, request: dict[str, Any], log: int) -> tuple[int, int]:
        self.levels.append(level)
        return 0, 1


def test_libraries_are_imported_for_the_steps_that_are_left(task, tmp_path):
    modules = [f"components.{step}" for step in ("ingestion", "training", "reporting")]
    tasks = [replace(task, name=module, command=("python", "-m", module)) for module in modules]
    server = Recorded()
    with Forks(server=server, tasks=tasks) as forks:
        for step in tasks:
            forks.run(step, list(step.command), tmp_path / "log.txt")

    first, most, last = map(level, modules)
    assert server.levels == [most, first, most, most, last, last]


def test_a_step_runs_as_a_process_when_the_server_is_gone(task, tmp_path):
    with ForkServer() as server, Forks(server=server) as forks:
        server.prepare(0, dict(os.environ))
        server.process.kill()
        server.process.wait()
        assert forks.run(task, [*PROBE, "exit", "3"], tmp_path / "log.txt")[0] == 3


ENGINE = """
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from pipelines import ir
from pipelines.engines.local.warm import ForkServer, Forks
(task,) = ir.load(Path(sys.argv[1])).tasks
with ForkServer() as server, Forks(server=server) as forks:
    server.prepare(0, dict(os.environ))
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
