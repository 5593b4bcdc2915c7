"""What a person starts: a run of a pipeline, its arguments gathered and checked."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from nightshift.contracts.state import DeploymentTarget, State
from nightshift.runtime.errors import UserError
from nightshift.runtime.identity import RunIdentity
from nightshift.runtime.observers import observe_run
from nightshift.storage import locks
from pipelines import arguments, ir, records
from pipelines.engines.local.containers import Containers
from pipelines.engines.local.processes import Processes
from pipelines.engines.local.run import DEFINITION, Observer, Run
from pipelines.engines.local.warm import Forks, ForkServer


def new(pipeline: ir.Pipeline, options: dict[str, Any], state: State) -> Run:
    """Prepare a run of a pipeline.

    Args:
        pipeline: the pipeline.
        options: values for its parameters; those it does not declare are an error.
        state: where this machine keeps things.

    Raises:
        UserError: when a value is not allowed, or the runs are to lie elsewhere: this engine's are folders.
    """
    values = arguments.gather_arguments(pipeline, options, state.dump())
    if "state" in values:
        values["state"] |= {"runs": _check_runs(pipeline, values["state"]["runs"], state.runs)}
    if "data" in values:
        values["data"] = arguments.absolute(values["data"])
    return Run(pipeline, values, Path(state.runs) / arguments.run_name(pipeline, values))


def _check_runs(pipeline: ir.Pipeline, requested: str, here: str) -> str:
    compiled = (pipeline.parameters["state"].default or {}).get("runs")
    if requested not in (here, compiled):  # a cluster's pipeline names the cluster's, which is not asked for here
        raise UserError(
            f"state.runs is {requested!r}, but the runs of this machine lie in {here}; leave it out, choose another "
            "--workspace, or run the pipeline on a cluster: nightshift submit"
        )
    return here


def use_containers(run: Run) -> Run:
    """Have a run's steps run in containers, which see what `mounts` says of this machine.

    Raises:
        UserError: when it is to serve its model: an endpoint ends with its container.
    """
    if run.arguments.get("state", {}).get("target") == DeploymentTarget.LOCAL:
        raise UserError(
            "target is local, but an endpoint ends with its container; leave out --runner docker, "
            "or start a run with --target register-only"
        )
    return replace(run, runner=Containers(str(_lock(run)), run.arguments, run.folder))


def use_forks(run: Run, server: ForkServer) -> Run:
    """Have a run's steps run as forks of a server, those in containers excepted."""
    if not isinstance(run.runner, Processes):
        return run
    return replace(run, runner=Forks(server=server, tasks=run.pipeline.tasks))


def execute(run: Run, observer: Observer) -> bool:
    """Execute a run as `Run.execute` does, and report its start and end to receivers of lineage and spans."""
    use_case = run.arguments.get("config", {}).get("name", "")
    identity = RunIdentity(use_case, run.pipeline.name, run.commands.root)
    return observe_run(identity, partial(run.execute, observer))


def reopen(folder: Path) -> Run:
    """Prepare a run's next attempt: the same definition and the same arguments."""
    return Run(ir.load(folder / DEFINITION), records.read(folder).parameters, folder)


@contextmanager
def lock_run(run: Run) -> Iterator[None]:
    """Keep other runs of the same pipeline, use case and date out during this one.

    The operating system ends the lock with this process and the one that ends its steps, so none is ever stale.

    Raises:
        UserError: when there is such a run already; it names the run.
    """
    path = _lock(run)
    with ExitStack() as stack:
        stack.enter_context(under_way(run))
        try:
            # also by the process that ends the steps: the next run begins after the last step has ended
            file = stack.enter_context(locks.hold(path, seconds=0, inheritable=True))
        except BlockingIOError:
            other = path.read_text() or "another run"
            raise UserError(f"{other} is in progress for the same date; wait for it or give another --date") from None
        file.seek(0)
        _sweep(run.folder.parent, file.read().decode())
        file.truncate(0)
        file.write(run.folder.name.encode())
        file.flush()
        yield


@contextmanager
def under_way(run: Run) -> Iterator[None]:
    """Refuse `none_under_way` during a run, or during one step of it that another engine has ordered."""
    gate = _gate(run.folder.parent, _use_case(run))
    gate.parent.mkdir(parents=True, exist_ok=True)
    with locks.hold(gate, shared=True, inheritable=True):
        yield


@contextmanager
def none_under_way(folder: Path, use_case: str) -> Iterator[None]:
    """Have every start of a run of a use case wait.

    Args:
        folder: of all runs.
        use_case: name in the config.

    Raises:
        UserError: when a run of it is in progress.
    """
    gate = _gate(folder, use_case)
    gate.parent.mkdir(parents=True, exist_ok=True)
    try:
        with locks.hold(gate, seconds=0):
            yield
    except BlockingIOError:
        raise UserError(f"a run of {use_case!r} in {folder} is in progress; try again when it has finished") from None


def _lock(run: Run) -> Path:
    parts = (_use_case(run), run.pipeline.name, str(run.arguments.get("date", "")))
    return _locks(run.folder.parent) / "-".join(part for part in parts if part)


def _use_case(run: Run) -> str:
    return str(run.arguments.get("config", {}).get("name", ""))


def _gate(folder: Path, use_case: str) -> Path:
    return _locks(folder) / f"{use_case}.gate"


def _locks(folder: Path) -> Path:
    return folder / ".locks"


def _sweep(runs: Path, name: str) -> None:
    """Remove what a run left that was killed before its record was written: it cannot be resumed."""
    if name and not (runs / name / records.FILE).exists():
        shutil.rmtree(runs / name, ignore_errors=True)
