"""What the commands of docs/projects print, in an empty folder beside the project's own.

RECORD=1 python -m benchmarks.projects [PAGE ...]
"""

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import figures
from pipelines.cli.projects import PAGES, list_commands

ROOT = PAGES.parents[1]
# page -> lines of what its commands print that the page shows
SHOWN = {
    "profile-resnet50": r"^\d+\.\d ms a step|^\d\. |faster|settings",
    "scale-one-to-four": r"processes|^ +\d+ +[\d,.]+ |^\d\. |step |throughput|communication",
    "train-10b": r"memory|step  |throughput|bubble|layout|registered|Bits per byte|done in",
    "train-13b": r"memory|step  |throughput|bubble|layout|registered|Bits per byte|done in",
    "serve-70b": r"replicas?|first token, ms|GPUs, |p5|error|spot|on-demand|written",
    "starved-gpu": r"processes|^ +\d+ +[\d,.]+ |^\d\. |nothing",
    "ddp-four-to-eight": r"processes|^ +\d+ +[\d,.]+ |^\d\. |busbw|float",
    "efficiency-across-nodes": r"throughput|communication|rank|^ +\d|nothing is wrong",
    "cheapest-server": r"requests/s|first token, ms|GPUs?, |spot|on-demand",
    "top-operations": r"ms a step|Most time",
    "image-endpoint": r"accuracy|promoted|Settings|up to .* rows|percentile|million",
    "bert-on-triton": r"accuracy|published|Settings|up to .* rows|chosen",
}


def run_page(page: Path, folder: Path) -> list[tuple[int, str]]:
    """Run the commands of a page in a folder that has the project's files; return what each prints, line by line.

    Raises:
        subprocess.CalledProcessError: when one fails.
    """
    for name in ("docs", "packages", "pipelines"):
        (folder / name).symlink_to(ROOT / name)
    lines: list[tuple[int, str]] = []
    for number, command in enumerate(list_commands(page.read_text()), 1):
        done = subprocess.run(
            to_argv(command),
            cwd=folder,
            env={**os.environ, "COLUMNS": "140"},
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode:
            sys.stderr.write(done.stdout)
        done.check_returncode()
        lines += [(number, line) for line in done.stdout.splitlines()]
    return lines


def to_argv(command: str) -> list[str]:
    """Return a command of a page as it runs in this environment."""
    program, *words = shlex.split(command)
    return [sys.executable, *(words if program == "python" else ["-m", "pipelines.cli", *words])]


def measure(name: str) -> list[figures.Row]:
    """Return the lines of a page's commands that it shows."""
    with tempfile.TemporaryDirectory() as folder:
        lines = run_page(PAGES / f"{name}.md", Path(folder))
    kept = [(number, line) for number, line in lines if re.search(SHOWN[name], line)]
    return [{"command": number, "prints": flatten(line)} for number, line in kept]


def flatten(line: str) -> str:
    """Return a printed line without a table's rules."""
    cells = (" ".join(cell.split()) for cell in re.split("[│┃]", line))
    return " · ".join(cell for cell in cells if cell)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.projects", description=__doc__)
    parser.add_argument("pages", nargs="*", default=[*SHOWN], help="default: all")
    for page_name in parser.parse_args().pages:
        figures.publish(f"project-{page_name}", measure(page_name))
