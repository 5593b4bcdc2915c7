"""Networks that tell classes of images apart: chosen on the validation fold, fitted again on the newest labels."""

import logging
import time
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import Tensor, nn

from components.classes import scorer, watched
from components.classes.metrics import Metrics, evaluate
from components.classes.shards import Items, labels
from components.common import storage
from components.common.config.classes import Images
from components.common.contracts import package
from components.common.contracts.artifact import LabeledWindow, Window
from components.common.contracts.package import Candidate as Entry
from components.common.contracts.package import DecisionRule, File, Format, Lineage, ModelPackage, Signature
from components.common.graph import Graph
from components.common.splits import Days, Fold, Plan
from components.neural import checkpoints, devices, processes, trainer
from components.neural.images import Augmentation, Gather, Pictures
from components.neural.recipes import checked
from components.neural.recipes.resnet import Parameters, ResNet
from components.training import onnx_export
from components.training.core import Candidate, Fits, Trained, accepted, select
from components.training.estimators import Fitted

log = logging.getLogger("nightshift")

RESIDENT = 1 << 30  # bytes of images that are copied to the device as a whole
CHECKED = 512  # images on which a graph is compared with the network
TOLERANCE = 1e-4

Pixels = npt.NDArray[np.uint8]
Scores = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Setting:
    """What stays the same through a training.

    Attributes:
        task: classes, candidates and how networks are trained.
        device: `cpu` or `cuda`.
        checkpoints: URI of the folder of this training's checkpoints; empty for none.
        resident: bytes of pixels up to which all are copied to the device; of more, a batch at a time is.
    """

    task: Images
    device: str
    checkpoints: str = ""
    resident: int = RESIDENT


@dataclass(frozen=True)
class Validation:
    """What the validation fold says of each candidate that can be used.

    Attributes:
        metrics: candidate -> metrics on the fold's test rows.
        window: the fold's test days and rows.
        dropped: candidate -> why it cannot be used, a sentence.
    """

    metrics: dict[str, Metrics]
    window: LabeledWindow
    dropped: dict[str, str]


def train(setting: Setting, plan: Plan, items: Items, lineage: Mapping[str, str]) -> Trained:
    """Choose a network and fit it.

    Args:
        setting: task and device.
        plan: the windows of the logical date.
        items: the days from the first training day of the validation fold to the last training day of the test fold.
        lineage: hashes of the tables and version of the code, kept in the package's lineage.

    Raises:
        UserError: when a window has no rows, or a recipe refuses a candidate's parameters.
    """
    task = setting.task
    validation = validate(setting, plan.validation, items)
    measured = validation.metrics
    seen = items.seen(plan.test)
    fits = fit_all(setting, items, seen, measured)
    usable = {name: measured[name] for name in fits.candidates}
    selected, reason = select(usable, task.select_by, plan.validation.test)
    log.info("%s", reason)
    graphs = {name: candidate.graph for name, candidate in fits.candidates.items()}
    unseen = watched.unseen(items, plan, seen, task.seed)
    reference = watched.reference(unseen, items, task.classes, Graph(graphs[selected]))
    made = ModelPackage(
        files=[File.of(f"{name}.onnx", graph, Format.ONNX) for name, graph in graphs.items()],
        signature=Signature.of_images(task.side, task.channels, len(task.classes)),
        preprocessing=package.Images(side=task.side, channels=task.channels, classes=task.classes),
        decision=DecisionRule(threshold=None),
        selected=selected,
        candidates={name: _entry(setting, name, found, measured[name]) for name, found in fits.candidates.items()},
        dropped=validation.dropped | fits.dropped,
        lineage=Lineage(
            train=_window(seen, plan.test.train),
            validation=validation.window,
            reference=Window(first=plan.before.first, last=plan.before.last, rows=len(reference)),
            selected_by=task.select_by,
            reason=reason,
            constant=[],
            device=setting.device,
            seed=task.seed,
            **lineage,
        ),
    )
    return Trained(made, graphs, reference)


def validate(setting: Setting, fold: Fold, items: Items) -> Validation:
    """Fit every candidate on a fold's training days, and measure it on the fold's test rows."""
    unseen = items.unseen(fold)
    fits = fit_all(setting, items, items.seen(fold), setting.task.candidates)
    pixels, true = items.inputs(unseen), labels(unseen, setting.task.classes)
    metrics = {name: evaluate(true, scored(candidate.graph, pixels)) for name, candidate in fits.candidates.items()}
    for name, found in metrics.items():
        log.info("%s: validation accuracy %.4f", name, found["accuracy"])
    return Validation(metrics, _window(unseen, fold.test), fits.dropped)


def fit_all(setting: Setting, items: Items, rows: pd.DataFrame, names: Iterable[str]) -> Fits:
    """Fit candidates on some labeled rows, and leave out those that ONNX does not give right.

    Raises:
        UserError: when no candidate is left.
    """
    fits = Fits({}, {})
    for name in names:
        log.info("%s: fitting %d images", name, len(rows))
        started = time.perf_counter()
        fitted = fit(setting, name, items, rows)
        seconds = round(time.perf_counter() - started, 3)
        log.info("%s: fitted in %.1f s", name, seconds)
        sample = items.inputs(rows.iloc[:: -(-len(rows) // CHECKED)])
        gap = float(np.abs(scored(fitted.graph, sample) - fitted.predict(sample)).max())
        accepted(fits, name, Candidate(fitted.graph, seconds), gap, TOLERANCE)
    return fits.usable()


def fit(setting: Setting, name: str, items: Items, rows: pd.DataFrame) -> Fitted:
    """Fit one candidate of the config.

    Raises:
        UserError: when its recipe refuses a parameter.
    """
    task, device = setting.task, devices.torch_device(setting.device)
    made = recipe(task, name)
    pictures = _pictures(setting, items, rows, made)
    folder = storage.join(setting.checkpoints, _field(name), storage.fingerprint(list(rows["content"]))[:16])
    seconds = task.trainer.checkpoint_seconds
    with (
        checkpoints.kept(folder, seconds) if setting.checkpoints else nullcontext() as kept,
        devices.reproducible(task.seed, made.fit.threads),
    ):
        model = trainer.fit(processes.replica(made, task.trainer, device), pictures, kept).eval()
    return Fitted(lambda: onnx_export.images(model, made), partial(probabilities, model))


def recipe(task: Images, name: str) -> ResNet:
    """Return the recipe of a candidate of the config.

    Raises:
        UserError: when it refuses a parameter.
    """
    parameters = checked(Parameters, _field(name), task.candidates[name].parameters)
    return ResNet(task.side, task.channels, len(task.classes), parameters)


def scored(graph: bytes, pixels: Pixels) -> Scores:
    """Return a graph's probabilities of each class, (n, classes), of uint8 (n, side, side, channels)."""
    return scorer.scores(Graph(graph), pixels)


def probabilities(model: nn.Sequential, pixels: Pixels) -> Scores:
    """Return a network's probabilities of each class, (n, classes), of uint8 (n, side, side, channels).

    In float32 on a GPU too, since they are what those of the graph are compared with.
    """
    device = next(model.parameters()).device
    with torch.no_grad(), devices.exact():
        batches = torch.split(torch.from_numpy(pixels).to(device), scorer.AT_ONCE)
        found: Scores = torch.cat([model(batch).softmax(1) for batch in batches]).cpu().numpy()
    return found


def _field(name: str) -> str:
    return f"task.candidates.{name}.parameters"


def _pictures(setting: Setting, items: Items, rows: pd.DataFrame, recipe: ResNet) -> Pictures:
    task, device = setting.task, devices.torch_device(setting.device)
    known = torch.from_numpy(labels(rows, task.classes)).to(device)
    how = Augmentation(round(recipe.fit.shift * task.side), recipe.fit.flip)
    size = task.side**2 * task.channels * len(rows)
    gather = _resident(items, rows, device) if size <= setting.resident else _mapped(items, rows, device)
    return Pictures(gather, known, recipe.fit.batch_size, how)


def _resident(items: Items, rows: pd.DataFrame, device: torch.device) -> Gather:
    whole = torch.from_numpy(items.inputs(rows)).to(device)
    return lambda chosen: whole[chosen]


def _mapped(items: Items, rows: pd.DataFrame, device: torch.device) -> Gather:
    numbers = rows.index.to_numpy()

    def gather(chosen: Tensor) -> Tensor:
        pixels = torch.from_numpy(items.shards.take(numbers[chosen.cpu().numpy()]))
        return (pixels.pin_memory() if device.type == "cuda" else pixels).to(device, non_blocking=True)

    return gather


def _window(rows: pd.DataFrame, days: Days) -> LabeledWindow:
    return LabeledWindow(first=days.first, last=days.last, rows=len(rows))


def _entry(setting: Setting, name: str, candidate: Candidate, metrics: Metrics) -> Entry:
    model = setting.task.candidates[name]
    return Entry(
        kind=model.kind,
        parameters=model.parameters,
        file=f"{name}.onnx",
        validation={**metrics},
        seconds=candidate.seconds,
    )
