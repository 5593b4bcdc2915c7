"""The command line, as a real process."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any


def nightshift(workspace: Path, *words: str) -> str:
    command = [sys.executable, "-m", "pipelines", *words, "--workspace", str(workspace)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def newest(workspace: Path) -> dict[str, Any]:
    """The summary of the newest run."""
    summary: dict[str, Any] = json.loads((workspace / "runs/latest/summary.json").read_text())
    return summary
