"""What the daily run of the use case `fraud` takes in an empty workspace, and how soon other commands answer."""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import figures

RUN = "run training --config fraud --date 2026-11-21"
COMMANDS = ("--help", "models", "release status", "gc")


def main() -> None:
    """Measure a first run, a repeated one and the commands."""
    with tempfile.TemporaryDirectory() as folder:
        rows = [measure_run(title, folder) for title in ("first run", "the same date again")]
        for command in COMMANDS:
            # a command's help wants no workspace
            argv = command.split() if command == "--help" else [*command.split(), "--workspace", folder]
            rows.append({"command": f"nightshift {command}", "seconds": run(argv)})
    figures.publish("daily-run", rows, f"`nightshift {RUN}`, then the commands.")


def measure_run(title: str, folder: str) -> figures.Row:
    """Run the pipeline; return its seconds, the CPU seconds of its steps and the largest step's memory."""
    seconds = run([*RUN.split(), "--workspace", folder, "--target", "register-only"])
    steps = json.loads(Path(folder, "runs/latest/summary.json").read_text())["steps"].values()
    spent = {"CPU s of steps": sum(step["cpu_seconds"] for step in steps)}
    peak = max(step["peak_memory_bytes"] for step in steps)
    return {"command": title, "seconds": seconds, **spent, "largest step, MB": round(peak / 1e6)}


def run(argv: list[str]) -> float:
    """Return the seconds of a command."""
    started = time.perf_counter()
    subprocess.run([sys.executable, "-m", "pipelines.cli", *argv], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
