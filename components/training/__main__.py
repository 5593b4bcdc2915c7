"""Flags in, files out: see `components/training/__init__.py`."""

import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from components.training import component, section
from components.training.trainjob import LAUNCHER, STEP, TrainJob, TrainJobWork, here
from nightshift import storage, tasks
from nightshift.config import Config
from nightshift.config.neural import Trainer
from nightshift.contracts import package
from nightshift.contracts.section import write_section
from nightshift.costs.prices import MACHINE
from nightshift.models.neural import preemption
from nightshift.runtime import step
from nightshift.runtime.context import StepContext
from nightshift.runtime.errors import UserError
from nightshift.runtime.lineage import code_version
from nightshift.storage import locks, once, stores
from nightshift.tasks.base.training import TrainingSetup

if TYPE_CHECKING:
    from components.training.core import TrainedModel

PATIENCE = 3.0  # seconds: a process that was killed may still be ending
LAUNCHED, LOCAL = "WORLD_SIZE", "LOCAL_RANK"  # what torchrun sets


def body(context: StepContext, trainjob: Callable[[TrainJobWork], TrainJob] = here) -> dict[str, float | None]:
    """Train and save; processes that torchrun has started train networks together, and the first one does the rest."""
    config, uri = context.config, context.args.model
    if config.task.trainer.nodes > 1 and LAUNCHED not in os.environ:
        return _elsewhere(context, trainjob(_work(context)))
    networks = tasks.find(config.task.kind).training.networks(config.task)
    if networks:
        _start_processes(config.task.trainer)
    from nightshift.models.neural import devices, processes

    with processes.join_processes(devices.torch_device(context.device)):
        if step.is_first():
            folder = _checkpoints(context, code_version())
            _check_writable(uri, folder)
            with _hold(folder):
                measured = _save(uri, _train(context, folder, config), config)
                storage.remove_folder(folder)
            return measured
        step.log.setLevel(logging.WARNING)
        if networks:
            task = config.task.model_copy(update={"candidates": networks})
            try:
                folder = _checkpoints(context, code_version())
                _train(context, folder, config.model_copy(update={"task": task}))
            except UserError:
                if os.environ.get(LOCAL) == "0":  # each machine's first process logs it
                    raise
    return {}


def _check_writable(*folders: str) -> None:
    """Write a file into folders and remove it: what keeps it from being written would end the step after hours.

    Raises:
        UserError: naming the one that cannot be written to.
    """
    for folder in folders:
        file = storage.join(folder, package.REFERENCE)  # which a step that is killed here replaces the next time
        storage.write_bytes(file, b"")
        storage.remove(file)
        if not storage.names(folder):
            storage.remove_folder(folder)


@contextmanager
def _hold(folder: str) -> Iterator[None]:
    """Keep a training's checkpoints to this process; in an object store nothing keeps others away.

    Raises:
        UserError: when another process has them.
    """
    fs, path = stores.open_store(folder)
    if not stores.is_local(fs):
        yield
        return
    file = Path(path, "lock")
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        with locks.hold(file, seconds=PATIENCE):
            yield
            file.unlink(missing_ok=True)
    except BlockingIOError:
        raise UserError(
            f"another process runs the same training, with checkpoints in {folder}; wait until it has ended, "
            "or give this one a state.checkpoints of its own"
        ) from None


def _work(context: StepContext) -> TrainJobWork:
    """Return this step as the work of several machines."""
    names = [field.name for field in component.training.flags]
    flags = [word for name in names for word in (f"--{name}", getattr(context.args, name))]
    variables = {MACHINE: os.environ[MACHINE]} if MACHINE in os.environ else {}
    trainer = context.config.task.trainer
    return TrainJobWork(tuple(flags), trainer.nodes, variables, trainer.processes)


def _start_processes(trainer: Trainer) -> None:
    """Become the launcher of the processes that the config names, or say that it names a layout without them."""
    if os.environ.get(LAUNCHED, "1") != "1":
        return
    if trainer.processes and LAUNCHED not in os.environ:
        _become_launcher(trainer.processes)
    if layout := trainer.describe_layout():
        step.log.warning(
            "task.trainer is {%s}, and this one process ignores it; write task.trainer.processes: "
            "docs/guides/training.md#several-processes",
            layout,
        )


def _become_launcher(processes: int) -> NoReturn:
    """Go on as the launcher of so many processes, which run this step together; the first one reports it."""
    step.log.info("%d processes train together", processes)
    signal.setitimer(signal.ITIMER_REAL, 0)  # the budget's: each of them keeps to it
    arguments = [*LAUNCHER, "--standalone", "--nproc-per-node", str(processes), *STEP, *sys.argv[1:]]
    os.execv(sys.executable, [sys.executable, *arguments])  # noqa: S606 no shell is wanted


def _elsewhere(context: StepContext, trainjob: TrainJob) -> dict[str, float | None]:
    """Have several machines run this step together, and take what they have written for its own."""
    with preemption.heed_sigterm() as notice:
        trainjob.run(notice)
    uri = context.args.model
    if not storage.exists(storage.join(uri, package.MANIFEST)):
        raise UserError(
            f"the TrainJob is complete, but there is no model at {uri}: its pods have written somewhere else; "
            "keep runs in an object store, or on a volume that the runtime mounts (infra/kubernetes/base/training.yaml)"
        )
    return _shown_metrics(package.load(uri), context.config)


def _train(context: StepContext, checkpoints: str, config: Config) -> "TrainedModel":
    from components.training import core

    features = replace(context.features, shared=os.environ.get(once.FOLDER, ""))
    setup = TrainingSetup(config, context.plan, features, context.device, checkpoints)
    return core.train(setup, tasks.find(config.task.kind).training.read_rows(setup), code_version())


def _checkpoints(context: StepContext, code: str) -> str:
    """Return where a training's checkpoints lie: those of other rows, settings or code lie elsewhere.

    How processes share the work is not among the settings, nor is what the config says of other steps.
    """
    config = context.config
    task = config.task.model_dump(mode="json", exclude={"trainer"})
    made_of = [task, context.plan, context.features.sha256, context.device, code]
    return storage.join(context.state.checkpoints, config.name, "training", storage.fingerprint(made_of)[:16])


def _save(uri: str, trained: "TrainedModel", config: Config) -> dict[str, float | None]:
    write_section(
        uri, section.build(trained.package, tasks.find(config.task.kind).metrics.list_headline_metrics(config))
    )
    package.save(uri, trained.package, trained.graphs, trained.reference, trained.files)
    return _shown_metrics(trained.package, config)


def _shown_metrics(model: package.ModelPackage, config: Config) -> dict[str, float | None]:
    measured = model.candidates[model.selected].validation
    headline = tasks.find(config.task.kind).metrics.list_headline_metrics(config)
    return {metric.name: measured[metric.name] for metric in headline}


if __name__ == "__main__":
    step.run(component.training.parser(), body)
