"""Networks that tell classes of images apart."""

from collections.abc import Mapping
from functools import partial

import pandas as pd

from components.classes.shards import Items
from components.common.config.classes import Images
from components.common.contracts.package import Signature
from components.neural.recipes import checked
from components.neural.recipes.resnet import Parameters, ResNet
from components.training import networks, onnx_export
from components.training.estimators import Fitted
from components.training.networks import Setting


def signature(task: Images) -> Signature:
    """Return what every graph takes and gives."""
    return Signature.of_images(task.side, task.channels, len(task.classes))


def files(_: Images) -> Mapping[str, bytes]:
    """Return what a package holds beside its graphs: nothing."""
    return {}


def is_network(_: Images, __: str) -> bool:
    """Return whether several processes train a candidate together: each of them."""
    return True


def fit(setting: Setting, name: str, items: Items, rows: pd.DataFrame) -> Fitted:
    """Fit one candidate of the config.

    Raises:
        UserError: when its recipe refuses a parameter.
    """
    task = setting.task
    assert isinstance(task, Images)
    made = recipe(task, name)
    data = networks.gathered(setting, items, rows, made.fit.batch_size, made.augmented)
    model = networks.fit(setting, name, made, rows, data)
    return Fitted(lambda: onnx_export.images(model, made), partial(networks.probabilities, model))


def recipe(task: Images, name: str) -> ResNet:
    """Return the recipe of a candidate of the config.

    Raises:
        UserError: when it refuses a parameter.
    """
    parameters = checked(Parameters, networks.field(name), task.candidates[name].parameters)
    return ResNet(task.side, task.channels, len(task.classes), parameters)
