"""Networks that tell classes of images apart."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import pandas as pd
from torch import nn

from nightshift.config.images import ImageTaskConfig
from nightshift.config.section import check_parameters
from nightshift.contracts import preprocessing as parts
from nightshift.contracts.package import Datatype, Signature, Tensor
from nightshift.items.shards import ItemTable, count_classes, labels
from nightshift.models.neural import devices
from nightshift.models.recipes.resnet import ClassifierHead, ResNet, ResNetParameters
from nightshift.tasks import onnx_export
from nightshift.tasks.classification import class_networks, linear
from nightshift.tasks.fitting import Fitted
from nightshift.tasks.items import networks
from nightshift.tasks.items.networks import FitSetup


def preprocessing(task: ImageTaskConfig) -> parts.ImagePreprocessing:
    """Return how images become the graphs' input."""
    return parts.ImagePreprocessing(
        classes=task.classes,
        side=task.side,
        channels=task.channels,
        min_side=task.min_side,
        max_pixels=task.max_pixels,
    )


def signature(task: ImageTaskConfig) -> Signature:
    """Return what every graph takes and gives."""
    pixels = Tensor.of_rows(Datatype.UINT8, task.side, task.side, task.channels)
    return Signature.of_scores(pixels, classes=len(task.classes))


def files(_: ImageTaskConfig) -> Mapping[str, bytes]:
    """Return what a package holds beside its graphs: nothing."""
    return {}


def is_network(task: ImageTaskConfig, name: str) -> bool:
    """Return whether several processes train a candidate together."""
    return not recipe(task, name).fit.frozen


def fit(setup: FitSetup[ImageTaskConfig], name: str, items: ItemTable, rows: pd.DataFrame) -> Fitted:
    """Fit one candidate of the config.

    Raises:
        UserError: when its recipe refuses a parameter.
    """
    task = setup.task
    architecture = replace(recipe(task, name), counts=count_classes(rows, task.classes, task.is_multilabel))
    if architecture.fit.frozen:
        return _frozen(setup, name, architecture, items, rows)
    data = class_networks.gather_dataset(setup, items, rows, architecture.fit.batch_size, architecture.change)
    training = networks.fit(setup, name, architecture, rows, data)
    scores = partial(class_networks.probabilities, training.model, is_multilabel=task.is_multilabel)
    return Fitted(
        lambda: onnx_export.images(training.model, architecture),
        scores,
        training.losses,
        training.validation_losses,
        choices=training.choices,
    )


def recipe(task: ImageTaskConfig, name: str) -> ResNet:
    """Return the recipe of a candidate of the config.

    Raises:
        UserError: when it refuses a parameter.
    """
    parameters = check_parameters(ResNetParameters, networks.field(name), task.candidates[name].parameters)
    shape = (task.side, task.channels, len(task.classes))
    return ResNet(networks.field(name), *shape, parameters, is_multilabel=task.is_multilabel)


def _frozen(
    setup: FitSetup[ImageTaskConfig], name: str, architecture: ResNet, items: ItemTable, rows: pd.DataFrame
) -> Fitted:
    """Fit logistic regression on the embeddings of a pretrained network."""
    task = setup.task
    with devices.reproducible(task.seed, architecture.fit.threads):
        model = architecture.model().to(setup.torch_device).eval()
        *blocks, head = model
        seen = nn.Sequential(*blocks)
        embedded = networks.run_batches(lambda batch: seen(batch).mean((2, 3)), items.inputs(rows), setup.torch_device)
    assert isinstance(head, ClassifierHead)
    linear.fit(task, name, embedded, labels(rows, task.classes, task.is_multilabel)).give(head.linear)
    scores = partial(class_networks.probabilities, model, is_multilabel=task.is_multilabel)
    return Fitted(lambda: onnx_export.images(model, architecture), scores)
