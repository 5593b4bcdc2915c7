"""What can be fitted to pairs: networks of two towers, and a linear baseline."""

from collections.abc import Mapping
from functools import partial

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import nn

from nightshift.config.section import check_parameters
from nightshift.contracts.package import Datatype, NamedGraph, Signature, Tensor
from nightshift.items import scorer, tokens
from nightshift.items.shards import Array, ItemTable, labels
from nightshift.models.neural import devices
from nightshift.models.tensors import Tensors, by_name, split_rows
from nightshift.stats.bootstrap import number_groups
from nightshift.tasks.classification import class_networks
from nightshift.tasks.fitting import Fitted
from nightshift.tasks.items import networks
from nightshift.tasks.items.networks import FitSetup, Scores
from nightshift_image_text.config import ImageTextTaskConfig
from nightshift_image_text.preprocessing import ImageTextPreprocessing
from nightshift_image_text.recipes import clip
from nightshift_image_text.recipes.clip import Clip, ClipParameters
from nightshift_image_text.task import linear
from nightshift_image_text.task.measuring import IMAGES, REPORTS, SCORE
from nightshift_image_text.task.views import PIXELS, TOKENS

OUTPUTS = (SCORE, IMAGES, REPORTS)


def preprocessing(task: ImageTextTaskConfig) -> ImageTextPreprocessing:
    """Return how pairs become the graphs' inputs.

    Raises:
        UserError: when the tokenizer cannot be read.
    """
    tokenizer = tokens.load_tokenizer(task)
    return ImageTextPreprocessing(
        classes=task.classes,
        side=task.side,
        channels=task.channels,
        min_side=task.min_side,
        max_pixels=task.max_pixels,
        length=task.length,
        tokenizer=tokens.FILE if tokenizer.content else None,
        tokenizer_sha256=tokenizer.sha256,
        vocabulary=tokenizer.vocabulary,
        pad=tokenizer.pad,
    )


def signature(task: ImageTextTaskConfig) -> Signature:
    """Return what every graph takes and gives; each tower runs without the other, and embeddings have any width."""
    pixels = Tensor.of_rows(Datatype.UINT8, task.side, task.side, task.channels, name=PIXELS)
    numbers = Tensor.of_rows(Datatype.INT32, task.length, name=TOKENS)
    score = Tensor(name=SCORE, datatype=Datatype.FP32, shape=[-1, len(task.classes)])
    embeddings = [Tensor(name=name, datatype=Datatype.FP32, shape=[-1, -1]) for name in (IMAGES, REPORTS)]
    return Signature(
        inputs=[pixels, numbers],
        outputs=[score, *embeddings],
        graphs={
            "image": NamedGraph(inputs=[PIXELS], outputs=[SCORE, IMAGES]),
            "text": NamedGraph(inputs=[TOKENS], outputs=[REPORTS]),
        },
    )


def files(task: ImageTextTaskConfig) -> Mapping[str, bytes]:
    """Return what a package holds beside its graphs."""
    content = tokens.load_tokenizer(task).content
    return {tokens.FILE: content} if content else {}


def is_network(task: ImageTextTaskConfig, name: str) -> bool:
    """Return whether several processes train a candidate together."""
    return task.candidates[name].kind == "clip"


def recipe(task: ImageTextTaskConfig, name: str) -> Clip:
    """Return the recipe of a network among the candidates of the config.

    Raises:
        UserError: when it refuses a parameter.
    """
    field, tokenizer = networks.field(name), tokens.load_tokenizer(task)
    parameters = check_parameters(ClipParameters, field, task.candidates[name].parameters)
    return Clip(
        field,
        side=task.side,
        channels=task.channels,
        length=task.length,
        vocabulary=tokenizer.vocabulary,
        pad=tokenizer.pad,
        findings=len(task.classes),
        fit=parameters,
    )


def fit(setup: FitSetup[ImageTextTaskConfig], name: str, items: ItemTable, rows: pd.DataFrame) -> Fitted:
    """Fit one candidate of the config.

    Raises:
        UserError: when a parameter is refused, or pretrained weights cannot be had.
    """
    task = setup.task
    if task.candidates[name].kind == "linear":
        findings = labels(rows, task.classes, is_multilabel=True)
        baseline = linear.fit(task, name, tokens.load_tokenizer(task), items.inputs(rows), findings)
        return Fitted(lambda: linear.export(baseline, task), partial(predict, baseline))
    architecture = recipe(task, name)
    known = torch.from_numpy(label_pairs(task, items, rows)).to(setup.torch_device)
    gather = class_networks.gather_inputs(setup, items.shards, rows)
    training = networks.fit(setup, name, architecture, rows, architecture.rows(gather, known))
    model = architecture.merge(training.model)
    return Fitted(
        lambda: clip.export(model, architecture, setup.in_graph),
        partial(predict, model),
        training.losses,
        training.validation_losses,
        choices=training.choices,
    )


def label_pairs(task: ImageTextTaskConfig, items: ItemTable, rows: pd.DataFrame) -> npt.NDArray[np.float32]:
    """Return what a network learns of pairs, (n, 2 + findings): numbers of its report and its group, the findings.

    Pairs with the same tokens have the same report, of whichever studies: no image can tell one from the other.
    """
    reports = items.shards.select(TOKENS).take(rows.index.to_numpy())
    _, numbers = np.unique(reports, axis=0, return_inverse=True)
    known = labels(rows, task.classes, is_multilabel=True)
    return np.column_stack([numbers.ravel(), number_groups(rows), known]).astype(np.float32)


def predict(model: nn.Module, inputs: Array) -> Scores:
    """Return what a model gives of n pairs: scores of findings and both embeddings, side by side.

    In float32 on a GPU too, since it is what that of a graph is compared with.
    """
    device = next(model.parameters()).device
    with torch.no_grad(), devices.exact():
        batches = [_run(model, device, batch) for batch in split_rows(by_name(inputs), scorer.AT_ONCE)]
    return np.concatenate(batches)


def _run(model: nn.Module, device: torch.device, batch: Tensors) -> Scores:
    outputs = model({name: torch.from_numpy(np.ascontiguousarray(array)).to(device) for name, array in batch.items()})
    stacked: Scores = torch.cat([outputs[name].float() for name in OUTPUTS], 1).cpu().numpy()
    return stacked
