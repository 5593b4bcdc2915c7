"""Full disks, read-only targets, two runs at once, and kill -9, with real file systems and real processes."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from nightshift_testkit.kubeflow_runs.forks import Fork, ProgramForks, forking
from tests.components.states import state
from tests.nightly.kill_points import CONFIG, DATE, contents

LATER = "2025-07-02"


@dataclass(frozen=True)
class Steps:
    """Steps of the daily run as processes, whose libraries are imported once for all."""

    forks: ProgramForks

    def start(self, name: str, root: Path, date: str = DATE, **flags: str) -> Fork:
        """Start a step; what it makes lies below a folder."""
        values = {"config": json.dumps(CONFIG), "date": date, "state": state(root), **flags}
        words = [word for key, value in values.items() for word in (f"--{key}", value)]
        return self.forks.start([sys.executable, "-m", f"components.{name}", *words], dict(os.environ))

    def ingest(self, root: Path, date: str = DATE) -> Fork:
        return self.start("ingestion", root, date, data="simulator", events=str(root / f"events-{date}.json"))

    def compute(self, root: Path, date: str = DATE) -> Fork:
        flags = {"events": str(root / f"events-{date}.json"), "features": str(root / f"features-{date}.json")}
        return self.start("features", root, date, device="cpu", **flags)


@pytest.fixture(scope="module")
def steps() -> Iterator[Steps]:
    with forking() as forks:
        yield Steps(forks)


def ended(process: Fork) -> tuple[int, str]:
    """Return a process's exit code, and what it said beside its progress."""
    with process.stdout as output:
        lines = output.read().decode().splitlines()
    return process.wait(), "\n".join(line for line in lines if "days," not in line)


def mount(*words: str) -> None:
    done = subprocess.run(["mount", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"mounting is not permitted here: {done.stderr.strip()}")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one's own, of 300 kB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount("-t", "tmpfs", "-o", "size=300k", "tmpfs", str(folder))
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture(scope="module")
def undisturbed(steps: Steps, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What an undisturbed ingestion leaves in the lake."""
    root = tmp_path_factory.mktemp("undisturbed")
    assert ended(steps.ingest(root))[0] == 0
    return parquet(root)


def parquet(root: Path) -> dict[str, Any]:
    return {name: data for name, data in contents(root / "lake").items() if name.endswith(".parquet")}


def filled(disk: Path, leave: int) -> Path:
    """Fill a disk up to some bytes."""
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(300 * 1024 - leave))
    return ballast


@pytest.mark.parametrize("leave", [0, 16 * 1024, 64 * 1024])
def test_a_full_disk_is_one_clear_line_and_once_there_is_room_the_result_is_the_same(
    leave: int, disk: Path, steps: Steps, undisturbed: dict[str, Any]
) -> None:
    ballast = filled(disk, leave)
    code, error = ended(steps.ingest(disk))
    left = [path.name for path in disk.rglob("*") if path.name.endswith(".tmp")]
    manifest = (disk / f"events-{DATE}.json").exists()
    ballast.unlink()

    assert code == 2
    assert error.startswith(f"ingestion: {disk}/lake/killed/")
    assert error.endswith(": No space left on device; make room there, then run the same command again")
    assert (left, manifest, len(error.splitlines())) == ([], False, 1)
    subprocess.run(["mount", "-o", "remount,size=10m", str(disk)], check=True)
    assert ended(steps.ingest(disk)) == (0, "")
    assert parquet(disk) == undisturbed


def test_a_target_that_is_read_only_is_one_clear_line(disk: Path, steps: Steps) -> None:
    mount("-o", "remount,ro", str(disk))

    code, error = ended(steps.ingest(disk))

    assert code == 2
    assert error.startswith(f"ingestion: {disk}/lake/killed/")
    assert error.endswith(": Read-only file system; give a folder that can be written to, or mount it for writing")


def nightshift(workspace: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "pipelines.cli", "run", *words, "--workspace", str(workspace)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=1200)


@pytest.mark.parametrize("leave", [0, 8192, 32768])
def test_a_disk_that_is_full_for_the_engine_too_is_one_clear_line(leave: int, disk: Path, tmp_path: Path) -> None:
    filled(disk, leave)
    config = tmp_path / "config.yaml"
    config.write_text(json.dumps(CONFIG))

    done = nightshift(disk, "--date", DATE, "--config", str(config))

    assert done.returncode == 2
    assert "Traceback" not in done.stdout + done.stderr
    assert "No space left on device; make room there" in done.stderr + done.stdout
    assert len(done.stderr.splitlines()) <= 1
    assert not list(disk.rglob("*.tmp"))


def test_a_read_only_workspace_is_one_clear_line(disk: Path) -> None:
    mount("-o", "remount,ro", str(disk))

    done = nightshift(disk, "--date", DATE)

    assert done.returncode == 2
    assert done.stderr.startswith(f"nightshift: {disk}/runs")
    assert len(done.stderr.splitlines()) == 1


def test_two_runs_at_once_write_the_same_bytes_as_one_after_the_other(steps: Steps, tmp_path: Path) -> None:
    alone, together = tmp_path / "alone", tmp_path / "together"
    for day in (DATE, LATER):
        assert ended(steps.ingest(alone, day)) == (0, "")
        assert ended(steps.compute(alone, day))[0] == 0
    for start in (steps.ingest, steps.compute):
        # three times the same days and some that overlap with them
        processes = [start(together, day) for day in (DATE, DATE, DATE, LATER)]
        assert [ended(process)[0] for process in processes] == [0, 0, 0, 0]

    assert parquet(together) == parquet(alone)
    assert contents(together).keys() == contents(alone).keys()


@pytest.mark.slow
def test_whatever_is_killed_comes_out_the_same_when_it_is_run_again() -> None:
    command = [sys.executable, "-m", "tests.nightly.kill_points", "--limit", "8"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1200)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "times with SIGKILL: 0 files lost or left over" in done.stdout
