"""Flags in, files out: see `components/training/__init__.py`."""

import logging
import os
from argparse import Namespace
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from components.common import splits, step, storage
from components.common.config import Config, parse
from components.common.config.classes import Classes
from components.common.config.section import Section
from components.common.config.tabular import CandidateKind, Tabular
from components.common.config.task import Task
from components.common.contracts import package, tables
from components.common.contracts.section import write_section
from components.common.contracts.state import State
from components.common.dates import parse_date
from components.common.errors import UserError
from components.common.lineage import code_version
from components.common.prices import MACHINE
from components.common.splits import Days
from components.neural import preemption
from components.training import section
from components.training.trainjob import TrainJob, Work, here

if TYPE_CHECKING:
    from components.training.core import Trained

LAUNCHED, LOCAL = "WORLD_SIZE", "LOCAL_RANK"  # what torchrun sets
FLAGS = ("config", "date", "device", "state", "features", "model")


def parser() -> step.Parser:
    """Return the step's flags."""
    return (
        step.Parser("training", "Fit the candidates, choose one on the validation days, write them as ONNX.")
        .takes_device()
        .takes(
            config="the use case's config (JSON)",
            date="logical date, YYYY-MM-DD",
            state="where things are kept (JSON); checkpoints are used here",
            features="URI of the features manifest",
            model="URI of the folder to write",
        )
    )


def body(args: Namespace, trainjob: Callable[[Work], TrainJob] = here) -> dict[str, float | None]:
    """Train and save; processes that torchrun has started train networks together, and the first one does the rest."""
    config = parse(args.config)
    if config.task.trainer.nodes > 1 and LAUNCHED not in os.environ:
        return _elsewhere(args, trainjob(_work(args, config)))
    from components.neural import devices, processes

    with processes.joined(devices.torch_device(args.device)):
        if step.is_first():
            place = _checkpoints(args, config, code_version())
            _check_writable(args.model, place)
            measured = _saved(args, _trained(args, config, place), config)
            storage.remove_folder(place)
            return measured
        step.log.setLevel(logging.WARNING)
        if networks := _networks(config.task):
            task = config.task.model_copy(update={"candidates": networks})
            try:
                place = _checkpoints(args, config, code_version())
                _trained(args, config.model_copy(update={"task": task}), place)
            except UserError:
                if os.environ.get(LOCAL) == "0":  # of each machine the first process says it, in that machine's log
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


def _networks(task: Task) -> Mapping[str, Section]:
    """Return the candidates that several processes train together."""
    if isinstance(task, Tabular):
        return {name: each for name, each in task.candidates.items() if each.kind is CandidateKind.MLP}
    assert isinstance(task, Classes)
    from components.training.classes import FAMILIES

    return {name: each for name, each in task.candidates.items() if FAMILIES[type(task)].is_network(task, name)}


def _work(args: Namespace, config: Config) -> Work:
    """Return this step as the work of several machines."""
    flags = [word for name in FLAGS for word in (f"--{name}", getattr(args, name))]
    variables = {MACHINE: os.environ[MACHINE]} if MACHINE in os.environ else {}
    return Work(tuple(flags), config.task.trainer.nodes, variables)


def _elsewhere(args: Namespace, trainjob: TrainJob) -> dict[str, float | None]:
    """Have several machines run this step together, and take what they have written for its own."""
    with preemption.heeded() as notice:
        trainjob.run(notice)
    if not storage.exists(storage.join(args.model, package.MANIFEST)):
        raise UserError(
            f"the TrainJob is complete, but there is no model at {args.model}: its pods have written somewhere else; "
            "keep runs in an object store, or on a volume that the runtime mounts (infra/kubernetes/base/training.yaml)"
        )
    return _measured(package.load(args.model), parse(args.config))


def _trained(args: Namespace, config: Config, checkpoints: str) -> "Trained":
    from components.training import core

    if isinstance(config.task, Classes):
        return _trained_on_classes(args, config, checkpoints)
    plan, table = splits.plan(config, parse_date(args.date)), tables.read_table(args.features)
    inputs = table.details["numeric"], table.details["categorical"]
    setting = core.Setting(config, *inputs, args.device, checkpoints=checkpoints)
    columns = ["event_time", "customer", "label", *setting.numeric, *setting.categorical]
    features = table.read(Days(plan.validation.train.first, plan.test.train.last), columns)
    lineage = {"features_sha256": table.sha256, "events_sha256": table.details["events_sha256"]}
    lineage["code_version"] = code_version()
    return core.train(setting, plan, features, lineage)


def _trained_on_classes(args: Namespace, config: Config, checkpoints: str) -> "Trained":
    from components.classes import preprocessing, shards
    from components.classes.shards import Items
    from components.training import classes
    from components.training.networks import Setting

    plan, table = splits.plan(config, parse_date(args.date)), tables.read_table(args.features)
    shards.check(table, preprocessing.of(config.classes))
    items = Items.of(table, Days(plan.validation.train.first, plan.test.train.last))
    lineage = {"features_sha256": table.sha256, "events_sha256": table.details["events_sha256"]}
    lineage["code_version"] = code_version()
    return classes.train(Setting(config.classes, args.device, checkpoints), plan, items, lineage)


def _checkpoints(args: Namespace, config: Config, code: str) -> str:
    """Return where a training's checkpoints lie: those of other rows, settings or code lie elsewhere.

    How processes share the work is not among the settings, nor is what the config says of other steps.
    """
    task = config.task.model_dump(mode="json", exclude={"trainer"})
    plan, rows = splits.plan(config, parse_date(args.date)), tables.read_table(args.features).sha256
    root, made_of = State.parse(args.state).checkpoints, [task, plan, rows, args.device, code]
    return storage.join(root, config.name, "training", storage.fingerprint(made_of)[:16])


def _saved(args: Namespace, trained: "Trained", config: Config) -> dict[str, float | None]:
    write_section(args.model, section.build(trained.package, _metrics(config)))
    package.save(args.model, trained.package, trained.graphs, trained.reference, trained.files)
    return _measured(trained.package, config)


def _measured(model: package.ModelPackage, config: Config) -> dict[str, float | None]:
    measured = model.candidates[model.selected].validation
    return {name: measured[name] for name in _metrics(config)}


def _metrics(config: Config) -> dict[str, str]:
    """Return which metrics are shown -> what they are called."""
    if config.columns.content:
        return {"accuracy": "Accuracy", "macro_f1": "Macro F1", "log_loss": "Log loss"}
    precision = f"Precision at {config.evaluation.top_k}"
    return {"auc_roc": "ROC AUC", "average_precision": "Average precision", "precision_at_k": precision}


if __name__ == "__main__":
    step.run(parser(), body)
