"""Resolve the constraints files with uv: `name==version` for every extra but `gpu`, one file per Python.

torch and its CUDA wheels are left out: which build of torch is installed is decided before (see Makefile).
"""

import re
import subprocess
from pathlib import Path

FOLDER = Path(__file__).parent
EXTRAS = ("cpu", "kfp", "airflow", "aws", "gcp", "test", "lint", "bench", "search")
OMITTED = re.compile(r"^(torch|triton|nvidia-|cuda-)")


def resolve(python: str) -> str:
    """Return the pinned requirements for a Python version, a line each."""
    extras = [word for extra in EXTRAS for word in ("--extra", extra)]
    command = ["uv", "pip", "compile", "--quiet", "--no-annotate", "--no-header", "--python-version", python]
    done = subprocess.run(
        [*command, *extras, str(FOLDER.parent / "pyproject.toml")], check=True, capture_output=True, text=True
    )
    return "".join(line + "\n" for line in done.stdout.splitlines() if not OMITTED.match(line))


for version in ("3.11", "3.12", "3.13"):
    (FOLDER / f"py{version}.txt").write_text(resolve(version))
