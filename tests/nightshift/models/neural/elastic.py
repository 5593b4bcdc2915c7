"""A training over two processes whose processes are killed while it runs."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from nightshift_testkit import processes
from tests.nightshift.models.neural.resumable import STEPS

LAYOUT = '{"shard": 2}'


def command(folder: Path, count: int, layout: str, every: float, pause: float, restarts: int = 0) -> list[str]:
    """The launcher's command line: seconds between checkpoints, and seconds that a step takes at least."""
    words = ["--standalone", "--nproc-per-node", str(count), "--max-restarts", str(restarts)]
    script = ["-m", "tests.nightshift.models.neural.resumable", str(folder), layout, str(every), str(pause)]
    return [sys.executable, "-m", "nightshift.models.neural", *words, *script]


def undisturbed(folder: Path, count: int, layout: str) -> None:
    """Run it without a launcher, whose processes each import what these have in common."""
    command = [sys.executable, "-m", "tests.nightshift.models.neural.resumable", str(folder), layout, "1000", "0"]
    subprocess.run([*command, str(count)], check=True, timeout=600, stderr=subprocess.DEVNULL)


def lines(folder: Path) -> list[str]:
    """What the first process has noted, whole lines."""
    file = folder / "steps.txt"
    return file.read_text().split("\n")[:-1] if file.exists() else []


def reached(folder: Path, step: int, starts: int) -> None:
    """Wait until a step is taken after so many starts."""

    def is_there() -> bool:
        noted = lines(folder)
        begun = [number for number, line in enumerate(noted) if line.startswith("resumed")]
        return len(begun) == starts and any(int(line.split()[1]) >= step for line in noted[begun[-1] :])

    processes.wait_until(is_there, f"step {step} after start {starts}, not only {lines(folder)[-1:]}")


def survived(folder: Path, moments: list[int]) -> list[float]:
    """Kill a random process when each of these steps is reached; return the seconds until the training runs again."""
    rng = random.SystemRandom()
    folder.mkdir()
    seconds = []
    words = command(folder, 2, LAYOUT, every=0.2, pause=0.05, restarts=len(moments))
    with processes.started(words, stderr=subprocess.DEVNULL) as launcher:
        for start, step in enumerate(moments, 1):
            reached(folder, min(step, STEPS), start)
            time.sleep(rng.uniform(0, 0.05))
            killed = time.monotonic()
            os.kill(int((folder / f"{rng.randrange(2)}.pid").read_text()), signal.SIGKILL)
            reached(folder, 0, start + 1)
            seconds.append(time.monotonic() - killed)
        assert launcher.wait(processes.SECONDS) == 0
    return seconds
