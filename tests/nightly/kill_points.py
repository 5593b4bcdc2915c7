"""Kill every step at each point at which it touches its files, run it again, compare with a run nobody disturbed.

A point is a system call that Python announces (a file opened, locked, renamed, removed, a folder made), a write cut off
in the middle. Each is tried in a fork of a process that has loaded the libraries.
Counted are files of the undisturbed run that the second attempt did not bring back the same (lost), and files that the
undisturbed run has not (orphans).
"""

import argparse
import importlib
import itertools
import json
import logging
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from argparse import Namespace
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console

from benchmarks import figures
from nightshift.contracts.section import PAGE, SUFFIX
from nightshift.contracts.state import DeploymentTarget
from nightshift.runtime.context import StepContext
from nightshift.tasks.tabular import simulator
from pipelines import arguments
from pipelines.cli.progress import RunProgress
from pipelines.engines.local import runs
from pipelines.environments import local

DATE = "2025-06-30"
CONFIG: dict[str, Any] = {
    "name": "killed",
    "label_delay_days": 1,
    "source": {"files": "{date}.parquet"},
    "columns": simulator.ROLES,
    "quarantine": {"max_share": 0.5, "max_label_share": 0.5},
    "simulator": {"customers": 300, "terminals": 60, "corrupt_share": 0.005},
    "features": [
        {"preset": "payments", "windows": ["1d"]},
        {"entity": ["customer", "terminal"], "functions": ["count", "seconds_since_last"], "windows": ["6h"]},
        {"entity": "customer", "functions": ["max", "zscore"], "column": "amount", "windows": ["1d"]},
    ],
    "task": {
        "kind": "tabular",
        "candidates": {
            "logistic_regression": {"kind": "logistic_regression"},
            "mlp": {"kind": "mlp", "parameters": {"hidden": 4, "epochs": 1}},
        },
    },
    "protocol": {"train_days": 2, "test_days": 2},
    "evaluation": {"min_positives": 1, "min_average_precision": 0.0},
    "drift": {"window_days": 2},
}
# what the steps import when they run: loaded once, before the forks
LIBRARIES = (
    "pyarrow.dataset",
    "pandera.pandas",
    "pandera.strategies.pandas_strategies",
    "sklearn.linear_model",
    "torch._dynamo",
    "torch.onnx",
    "nightshift.models.neural.checkpoints",
    "onnxruntime",
    "jinja2",
)
TOUCHES = ("open", "fcntl.flock", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "os.truncate")
CUT = 64  # bytes that a write cut off in the middle has written
# what two undisturbed runs differ in too: figures of the attempt, and names by chance or by time
MEASURED = {
    "seconds",
    "cpu_seconds",
    "peak_memory_bytes",
    "lake_free_share",
    "started",
    "finished",
    "registered_at",
    "since",
    "state",
    "fingerprint",
}
MEASURED |= {"spent", "usd"}
MEASURED |= {"computed_days"}  # days that the killed attempt has left
TIME = re.compile(r"\d{8}T\d{12}")  # in runs' names
ARTIFACTS = (
    *("events", "features", "model", "profile", "evaluation", "scores", "drift", "deployment"),
    *("summary", "report", "overview"),
)


@dataclass(frozen=True)
class KillCase:
    """Something to kill.

    Attributes:
        name: of the step.
        workspace: folder of all it reads and writes.
        body: does the work, in this process.
        limit: points to try, spread evenly; all when there are fewer.
    """

    name: str
    workspace: Path
    body: Callable[[], object]
    limit: int


@dataclass(frozen=True)
class KillReport:
    """What became of a case: points there are, attempts killed, and what went wrong after which of them."""

    points: int
    killed: int
    lost: list[str]
    orphans: list[str]


def hunt(case: KillCase) -> KillReport:
    """Run a case undisturbed, then kill it at its points; its workspace is left as after the undisturbed run."""
    with tempfile.TemporaryDirectory() as folder:
        before, after = Path(folder, "before"), Path(folder, "after")
        shutil.copytree(case.workspace, before, symlinks=True)
        points = _points(case)
        expected = contents(case.workspace)
        shutil.copytree(case.workspace, after, symlinks=True)
        count = min(case.limit, len(points))
        chosen = [points[index * len(points) // count] for index in range(count)]
        killed, lost, orphans = 0, [], []
        for number, cut in chosen:
            _restore(case.workspace, before)
            killed += _fork(partial(_kill, case, number, cut)) < 0
            where = f"{case.name} {number}{' cut' if cut else ''}"
            if _fork(case.body):
                lost.append(f"{where}: the second attempt fails")
            seen = contents(case.workspace)
            lost += [f"{where}: {name}" for name, content in expected.items() if seen.get(name) != content]
            orphans += [f"{where}: {name}" for name in sorted(set(seen) - set(expected))]
        _restore(case.workspace, after)
    return KillReport(len(points), killed, lost, orphans)


def contents(workspace: Path) -> dict[str, object]:
    """Return what lies below a folder, without what is measured or names a run: relative path -> content."""
    paths = [path for path in sorted(workspace.rglob("*")) if ".locks" not in path.parts]
    numbers: dict[str, str] = {}
    return {_mask_names(path.relative_to(workspace), numbers): _content(path) for path in paths}


def _mask_names(path: Path, numbers: dict[str, str]) -> str:
    """Replace runs' names, which tell the time, by numbers."""
    named = [numbers.setdefault(part, f"#{len(numbers)}") if TIME.search(part) else part for part in path.parts]
    return "/".join(named)


def _content(path: Path) -> object:
    # a lock's file names its last holder
    if path.is_symlink() or path.is_dir() or path.suffix in (".txt", ".lock"):
        return ""
    # artifacts do not say in their names what they are; pages show times, and so does what they are made of
    data = path.read_bytes()
    if data.lstrip()[:1] == b"<" or path.name.endswith((SUFFIX, PAGE)):
        return ""
    try:
        return _stable(json.loads(data))
    except ValueError:  # no JSON, or half of it
        return data


def _stable(value: object) -> object:
    if isinstance(value, dict):
        return {key: _stable(item) for key, item in value.items() if key not in MEASURED}
    if isinstance(value, list):
        return [_stable(item) for item in value]
    return "of a run" if isinstance(value, str) and TIME.search(value) else value


def _points(case: KillCase) -> list[tuple[int, bool]]:
    """Run a case undisturbed; return the number of each point, and once more where a write can be cut off."""
    with tempfile.NamedTemporaryFile() as notes:

        def body() -> None:
            log = os.open(notes.name, os.O_WRONLY | os.O_APPEND)
            _watch(case.workspace, lambda number, writes: os.write(log, f"{number} {writes:d}\n".encode()))
            case.body()

        assert _fork(body) == 0, f"{case.name} fails undisturbed"
        lines = [line.split() for line in Path(notes.name).read_text().splitlines()]
    return [(int(number), bool(cut)) for number, writes in lines for cut in range(1 + int(writes))]


def _kill(case: KillCase, number: int, cut: bool) -> None:
    """Run a case until it is killed at a point."""

    def notice(now: int, _: bool) -> None:
        if now == number and cut:
            resource.setrlimit(resource.RLIMIT_FSIZE, (CUT, CUT))
        elif now == number:
            os.kill(os.getpid(), signal.SIGKILL)

    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # which Python ignores
    _watch(case.workspace, notice)
    case.body()


def _watch(workspace: Path, notice: Callable[[int, bool], object]) -> None:
    """From now on call with the number of each point, just before it, and whether it opens a file to write."""
    numbers = itertools.count(1)

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event == "fcntl.flock" or (event in TOUCHES and str(args[0]).startswith(str(workspace))):
            notice(next(numbers), event == "open" and bool(args[2] & (os.O_WRONLY | os.O_RDWR)))

    sys.addaudithook(hook)


def _fork(body: Callable[[], object]) -> int:
    child = os.fork()
    if not child:
        try:
            body()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _restore(workspace: Path, state: Path) -> None:
    shutil.rmtree(workspace)
    shutil.copytree(state, workspace, symlinks=True)


def _step(name: str, workspace: Path, limit: int) -> KillCase:
    """Return a step of the daily run as a case; what the steps before it made is in the workspace."""
    uris = {artifact: str(workspace / "made" / artifact) for artifact in ARTIFACTS}
    state = local(workspace, DeploymentTarget.REGISTER_ONLY)
    structs = {"config": json.dumps(CONFIG), "state": json.dumps(state.dump())}
    others = {"date": DATE, "data": "simulator", "device": "cpu", "run": "made"}
    flags = Namespace(**uris, **structs, **others, executor_input={})
    body = importlib.import_module(f"components.{name}.__main__").body
    return KillCase(name, workspace, lambda: body(StepContext(flags)), limit)


def _engine(workspace: Path, limit: int) -> KillCase:
    """Return the local engine as a case, with the first steps of the daily run."""
    pipeline = arguments.load_compiled(arguments.DEFAULT)
    kept = replace(pipeline, tasks=tuple(task for task in pipeline.tasks if task.name in ("ingestion", "features")))
    config = workspace / "killed.yaml"
    config.write_text(yaml.safe_dump(CONFIG))

    def body() -> None:
        begun = [path.parent for path in (workspace / "runs").glob("*/run.json")]
        options = {"config": str(config), "date": DATE}
        run = replace(runs.reopen(begun[0]), pipeline=kept) if begun else runs.new(kept, options, local(workspace))
        with runs.lock_run(run), RunProgress(kept, Console(quiet=True)) as progress:
            assert run.execute(progress)

    return KillCase("engine", workspace, body, limit)


def _cases(folder: Path, limit: int) -> list[KillCase]:
    daily, engine = folder / "daily", folder / "engine"
    (daily / "runs" / "made").mkdir(parents=True)
    engine.mkdir()
    return [
        _step("ingestion", daily, limit // 2),
        *[_step(name, daily, limit) for name in ("features", "training", "evaluation")],
        _step("scoring", daily, limit // 4),
        _step("drift", daily, limit // 16),
        _step("deployment", daily, limit),
        _step("reporting", daily, limit),
        _engine(engine, limit // 8),
    ]


def main() -> None:
    """Print what became of every step, and exit with 1 when anything was lost or left over."""
    parser = argparse.ArgumentParser(prog="python -m tests.nightly.kill_points", description=__doc__)
    parser.add_argument("--limit", type=int, default=120, help="points to try per step; fewer in slow steps")
    limit = parser.parse_args().limit
    logging.disable(logging.INFO)
    for library in LIBRARIES:
        importlib.import_module(library)
    results, rows = [], []
    with tempfile.TemporaryDirectory() as folder:
        for case in _cases(Path(folder), limit):
            started = time.monotonic()
            results.append(one := hunt(case))
            counts = {"points": one.points, "killed": one.killed, "lost": len(one.lost), "orphans": len(one.orphans)}
            rows.append({"step": case.name, **counts, "seconds": round(time.monotonic() - started)})
    wrong = [line for one in results for line in one.lost + one.orphans]
    print("\n".join(wrong))
    killed = sum(one.killed for one in results)
    figures.publish("kill-points", rows, f"Killed {killed} times with SIGKILL: {len(wrong)} files lost or left over.")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
