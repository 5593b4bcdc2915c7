"""The command line, as a real process."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def nightshift(workspace: Path, *words: str, **environment: str) -> str:
    command = [sys.executable, "-m", "pipelines.cli", *words, "--workspace", str(workspace)]
    options = {"env": os.environ | environment, "capture_output": True, "text": True, "timeout": 1200}
    done = subprocess.run(command, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def newest(workspace: Path) -> dict[str, Any]:
    """The summary of the newest run."""
    summary: dict[str, Any] = json.loads((workspace / "runs/latest/summary.json").read_text())
    return summary
