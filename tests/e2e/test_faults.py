"""Full disks, read-only targets, two runs at once, and kill -9, with real file systems and real processes."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.components.states import state
from tests.nightly.kill_points import CONFIG, DATE, contents

LATER = "2025-07-02"


def step(name: str, root: Path, date: str = DATE, **flags: str) -> "subprocess.Popen[str]":
    """Start a step of the daily run; what it makes lies below a folder."""
    values = {"config": json.dumps(CONFIG), "date": date, "state": state(root), **flags}
    words = [word for key, value in values.items() for word in (f"--{key}", value)]
    return subprocess.Popen([sys.executable, "-m", f"components.{name}", *words], stderr=subprocess.PIPE, text=True)


def ingest(root: Path, date: str = DATE) -> "subprocess.Popen[str]":
    return step("ingestion", root, date, data="simulator", events=str(root / f"events-{date}.json"))


def compute(root: Path, date: str = DATE) -> "subprocess.Popen[str]":
    flags = {"events": str(root / f"events-{date}.json"), "features": str(root / f"features-{date}.json")}
    return step("features", root, date, device="cpu", **flags)


def ended(process: "subprocess.Popen[str]") -> tuple[int, str]:
    """Return a process's exit code, and what it said beside its progress."""
    lines = process.communicate(timeout=1200)[1].splitlines()
    return process.returncode, "\n".join(line for line in lines if "days," not in line)


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
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What an undisturbed ingestion leaves in the lake."""
    root = tmp_path_factory.mktemp("undisturbed")
    assert ended(ingest(root))[0] == 0
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
    leave: int, disk: Path, undisturbed: dict[str, Any]
) -> None:
    ballast = filled(disk, leave)
    code, error = ended(ingest(disk))
    left = [path.name for path in disk.rglob("*") if path.name.endswith(".tmp")]
    manifest = (disk / f"events-{DATE}.json").exists()
    ballast.unlink()

    assert code == 2
    assert error.startswith(f"ingestion: {disk}/lake/killed/")
    assert error.endswith(": No space left on device; make room there, then run the same command again")
    assert (left, manifest, len(error.splitlines())) == ([], False, 1)
    subprocess.run(["mount", "-o", "remount,size=10m", str(disk)], check=True)
    assert ended(ingest(disk)) == (0, "")
    assert parquet(disk) == undisturbed


def test_a_target_that_is_read_only_is_one_clear_line(disk: Path) -> None:
    mount("-o", "remount,ro", str(disk))

    code, error = ended(ingest(disk))

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


def test_two_runs_at_once_write_the_same_bytes_as_one_after_the_other(tmp_path: Path) -> None:
    alone, together = tmp_path / "alone", tmp_path / "together"
    for day in (DATE, LATER):
        assert ended(ingest(alone, day)) == (0, "")
        assert ended(compute(alone, day))[0] == 0
    for start in (ingest, compute):
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
