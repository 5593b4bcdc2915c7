"""Runs a Python program of the user's under torch.profiler, in this process."""

import runpy
import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nightshift.runtime.errors import UserError


def record(command: str) -> bytes:
    """Return the trace of a program, gzip.

    Args:
        command: `train.py --flags`, `-m package.module --flags`, or the same after `python`.

    Raises:
        UserError: when it is no Python program, or fails.
    """
    arguments = shlex.split(command)
    if arguments and Path(arguments[0]).name.startswith("python"):
        arguments = arguments[1:]
    is_module = arguments[:1] == ["-m"]
    program = arguments[1:] if is_module else arguments
    if not program or not (is_module or program[0].endswith(".py")):
        raise UserError(f"--command {command!r} is no Python program that can run in this process; record it with: "
                        f"nsys profile --trace=cuda,nvtx --output=train {command}; nsys export --type sqlite "
                        "train.nsys-rep, and give --trace train.sqlite")  # fmt: skip
    import torch
    from torch.profiler import ProfilerActivity, profile

    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if torch.cuda.is_available() else [])]
    with _arguments(program), profile(activities=activities, profile_memory=True, record_shapes=True) as profiler:
        _run(program[0], is_module, command)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json.gz"
        profiler.export_chrome_trace(str(path))
        return path.read_bytes()


def _run(program: str, is_module: bool, command: str) -> None:
    try:
        if is_module:
            runpy.run_module(program, run_name="__main__", alter_sys=True)
        else:
            runpy.run_path(program, run_name="__main__")
    except SystemExit as end:
        if end.code not in (None, 0):
            raise UserError(f"--command {command!r} ended with {end.code}; see what it printed above") from None
    except (ImportError, OSError) as error:
        raise UserError(f"--command {command!r}: {error}; run it alone first") from error


@contextmanager
def _arguments(program: list[str]) -> Iterator[None]:
    before, path = sys.argv, list(sys.path)
    sys.argv = program
    sys.path.insert(0, str(Path(program[0]).resolve().parent))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = before, path
