"""The command line, as a person uses it."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipelines.samples import compiled_file, shell, write


def nightshift(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "pipelines", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_a_run_prints_its_name_and_each_step(tmp_path: Path) -> None:
    def pipeline(text: str = "a") -> None:
        write(text=text)

    done = nightshift("run", str(compiled_file(pipeline, tmp_path)), "--workspace", str(tmp_path), "--set", "text=b")
    assert done.returncode == 0
    assert "run sample-" in done.stdout
    assert "write done in" in done.stdout
    (folder,) = (tmp_path / "runs").iterdir()
    assert (folder / "write/made").read_text() == "b"


def test_a_failure_names_the_step_its_command_its_last_lines_and_the_way_on(tmp_path: Path) -> None:
    def pipeline() -> None:
        shell(script="echo out of luck >&2; exit 3")

    done = nightshift("run", str(compiled_file(pipeline, tmp_path)), "--workspace", str(tmp_path))
    (folder,) = (tmp_path / "runs").iterdir()
    assert done.returncode == 1
    assert "shell failed (exit code 3)" in done.stdout
    assert "out of luck" in done.stdout
    assert "command  sh -c echo out of luck" in done.stdout
    assert f"nightshift run --resume {folder.name}" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_a_users_mistake_in_a_step_ends_the_run_with_exit_code_two(tmp_path: Path) -> None:
    def pipeline() -> None:
        shell(script="exit 2")

    assert nightshift("run", str(compiled_file(pipeline, tmp_path)), "--workspace", str(tmp_path)).returncode == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "nowhere.yaml"], "does not exist"),
        (["run", "--config", "nope"], "give a YAML file or one of fraud"),
        (["run", "--date", "yesterday"], "write a day as YYYY-MM-DD"),
        (["run", "--set", "x"], "--set takes name=value"),
        (["run", "--resume", "r1"], "there is no run 'r1'"),
        (["show", "r1"], "there is no run 'r1'"),
    ],
)
def test_a_mistake_is_one_clear_line_and_exit_code_two(words: list[str], message: str, tmp_path: Path) -> None:
    done = nightshift(*words, "--workspace", str(tmp_path))
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
