"""Resolve the constraints files with uv: `name==version`, one file per environment and Python.

torch and its CUDA wheels are left out of the environments with its CPU build: which build is installed is decided
before (see Makefile).
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).parent
PROJECT = str(FOLDER.parent / "pyproject.toml")
CPU = (
    *("cpu", "kfp", "aws", "gcp", "kafka", "kserve", "lakehouse", "language", "mcp", "redis", "dask", "sql", "ui"),
    *("test", "lint", "bench", "search", "mutants"),
)
# its extras are no other project's
IMAGE_TEXT = (
    *(f"--extra={name}" for name in ("dicom", "deidentification", "test")),
    str(FOLDER.parent / "packages/image-text/pyproject.toml"),
)
GPU = ("gpu", "dask", "dask-cuda", "aws", "gcp", "openlineage", "otel")
OMITTED = re.compile(r"^(torch|triton|nvidia-|cuda-|nightshift-)")


def resolve(python: str, *wanted: str) -> list[str]:
    """Return the pinned requirements for a Python version, a line each."""
    command = ["uv", "pip", "compile", "--quiet", "--no-annotate", "--no-header", "--python-version", python, *wanted]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return done.stdout.splitlines(keepends=True)


def extras(names: tuple[str, ...]) -> Iterator[str]:
    """Yield the words that ask for extras of the project."""
    for name in names:
        yield from ("--extra", name)
    yield PROJECT


for version in ("3.11", "3.12", "3.13"):
    project = [line for line in resolve(version, *extras(CPU), *IMAGE_TEXT) if not OMITTED.match(line)]
    (FOLDER / f"py{version}.txt").write_text("".join(project))
    for name, group in (("airflow", "airflow-test"), ("infra", "infra")):
        (FOLDER / f"{name}-py{version}.txt").write_text("".join(resolve(version, "--group", f"{PROJECT}:{group}")))
# of the GPU images, and of the Triton in tests
(FOLDER / "serving-gpu-py3.11.txt").write_text("".join(resolve("3.11", "--group", f"{PROJECT}:serving-gpu")))
(FOLDER / "gpu-py3.11.txt").write_text("".join(resolve("3.11", *extras(GPU))))
(FOLDER / "triton-py3.11.txt").write_text("".join(resolve("3.11", "--group", f"{PROJECT}:triton")))
