"""No process that is started imports from the folder it is started in, whatever a user keeps there."""

import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from components.loadtest import server
from nightshift.contracts.loadtest import ServerSettings
from nightshift.runtime.errors import UnavailableError, UserError
from nightshift.runtime.interpreter import isolate
from nightshift_perf import tuning
from nightshift_perf.pairs import BenchmarkProcess
from nightshift_testkit.processes import SECONDS
from pipelines import ir
from pipelines.engines.local.processes import Processes
from pipelines.engines.local.warm import Forks, ForkServer
from tests.pipelines.samples import compiled_file, one_step

# names of Python, of a library, and of the project
NAMES = ["queue.py", "json.py", "random.py", "numpy/__init__.py", "components/__init__.py", "pipelines/__init__.py"]


@pytest.fixture
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that is written as soon as somebody imports from the current folder."""
    folder, mark = tmp_path / "cwd", tmp_path / "mark"
    for name in NAMES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"open({str(mark)!r}, 'a').write({name!r} + ' ')\nraise SystemExit(9)\n")
    monkeypatch.chdir(folder)
    return mark


def step(tmp_path: Path) -> ir.PipelineTask:
    (task,) = ir.load(compiled_file(one_step("true"), tmp_path)).tasks
    return task


def in_a_process(tmp_path: Path) -> None:
    with Processes() as processes:
        assert processes.run(step(tmp_path), ["python", "-m", "components.drift", "--help"], tmp_path / "log")[0] == 0


def in_a_fork(tmp_path: Path) -> None:
    with ForkServer() as started, Forks(server=started) as forks:
        assert forks.run(step(tmp_path), ["python", "-m", "components.drift", "--help"], tmp_path / "log")[0] == 0


def by_torchrun(_: Path) -> None:
    words = [sys.executable, "-m", *tuning.launcher(2), "components.drift", "--help"]
    subprocess.run(words, env=tuning.environment(2), stdout=subprocess.DEVNULL, timeout=SECONDS, check=True)


def of_a_comparison(tmp_path: Path) -> None:
    with suppress(UserError), BenchmarkProcess(str(tmp_path / "missing")):
        pass


def of_a_load_test(tmp_path: Path) -> None:
    with suppress(UnavailableError), server.serve(str(tmp_path / "missing"), "fraud", ServerSettings(workers=1)):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("start", [in_a_process, in_a_fork, by_torchrun, of_a_comparison, of_a_load_test])
def test_what_lies_in_the_current_folder_is_not_imported(
    start: Callable[[Path], None], mark: Path, tmp_path: Path
) -> None:
    start(tmp_path)

    assert not mark.exists(), mark.read_text()


@pytest.mark.parametrize(
    ("path", "kept"), [("", None), (":", None), (":/a", "/a"), ("/a::/b:", "/a:/b"), ("/a", "/a"), (".", ".")]
)
def test_an_empty_entry_of_pythonpath_is_not_the_current_folder(path: str, kept: str | None) -> None:
    assert isolate({"PYTHONPATH": path, "A": "b"}).get("PYTHONPATH") == kept
