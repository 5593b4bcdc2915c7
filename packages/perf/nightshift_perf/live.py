"""Runs a Python program of the user's under torch.profiler, in this process."""

import inspect
import runpy
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

from nightshift.runtime.errors import UserError, nearest

LOADER = {"num_workers": int, "prefetch_factor": int, "pin_memory": bool, "persistent_workers": bool}


def parse_settings(items: Sequence[str]) -> dict[str, int | bool]:
    """Return arguments of a DataLoader from `NAME=VALUE` each.

    Raises:
        UserError: when it has no such argument, or not of such a value.
    """
    settings: dict[str, int | bool] = {}
    for item in items:
        name, _, text = item.partition("=")
        if name not in LOADER:
            raise UserError(f"--set {item}: a DataLoader has {', '.join(LOADER)}{nearest(name, LOADER)}")
        is_flag = LOADER[name] is bool
        if not (text in ("true", "false") if is_flag else text.isdecimal()):
            raise UserError(f"--set {item}: give {name}={'true or false' if is_flag else '2 or another number'}")
        settings[name] = text == "true" if is_flag else int(text)
    return settings


def record(command: str, settings: Mapping[str, int | bool]) -> bytes:
    """Return the trace of a program, gzip.

    Args:
        command: `train.py --flags`, `-m package.module --flags`, or the same after `python`.
        settings: arguments that each DataLoader of the program gets instead of its own.

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
    recorded = profile(activities=activities, profile_memory=True, record_shapes=True)
    with _arguments(program), _loader_arguments(settings), recorded as profiler:
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
def _loader_arguments(settings: Mapping[str, int | bool]) -> Iterator[None]:
    """Give each DataLoader that is made some arguments instead of its own."""
    from torch.utils.data import DataLoader

    make = DataLoader.__init__

    @wraps(make)
    def make_with_settings(loader: Any, *args: Any, **kwargs: Any) -> None:
        bound = inspect.signature(make).bind(loader, *args, **kwargs)
        bound.arguments |= settings
        make(*bound.args, **bound.kwargs)

    DataLoader.__init__ = make_with_settings  # type: ignore[assignment,method-assign]
    try:
        yield
    finally:
        DataLoader.__init__ = make  # type: ignore[method-assign]


@contextmanager
def _arguments(program: list[str]) -> Iterator[None]:
    before, path = sys.argv, list(sys.path)
    sys.argv = program
    sys.path.insert(0, str(Path(program[0]).resolve().parent))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = before, path
