"""What networks of images and of texts have in common: how they are fitted, and what they give."""

from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

from nightshift.items.shards import Array, ItemTable, Shards, labels
from nightshift.models.neural import data
from nightshift.models.neural.data import AugmentedDataset, Gather, Transform
from nightshift.tasks.items.networks import FitSetup, Scores, run_batches


def gather_dataset(
    setup: FitSetup[Any], items: ItemTable, rows: pd.DataFrame, size: int, change: Transform
) -> AugmentedDataset:
    """Return what a network is trained on.

    Args:
        setup: task and device.
        items: of the training.
        rows: those of them that train.
        size: rows of a batch.
        change: what is done to a batch.
    """
    numbers = labels(rows, setup.task.classes, setup.task.is_multilabel)
    known = torch.from_numpy(numbers.astype(np.float32) if numbers.ndim == 2 else numbers).to(setup.torch_device)
    return AugmentedDataset(gather_inputs(setup, items.shards, rows), known, size, change)


def gather_inputs(setup: FitSetup[Any], shards: Shards, rows: pd.DataFrame) -> Gather:
    """Return how a network gets its inputs of some rows: from the device if these are small, else from disk.

    Args:
        setup: device, and what is small.
        shards: of the training; of rows with several parts, inputs are gathered by their names.
        rows: those that train; their index numbers those of the shards.
    """
    if shards.fields:
        return data.gather_together({name: gather_inputs(setup, shards.select(name), rows) for name in shards.fields})
    numbers, device = rows.index.to_numpy(), setup.torch_device
    if shards.width * len(rows) <= setup.resident:
        return data.gather_resident(torch.from_numpy(shards.take(numbers)).to(device))
    return data.gather_streamed(lambda chosen: shards.take(numbers[chosen]), shards.width, device)


def probabilities(model: nn.Sequential, inputs: Array, is_multilabel: bool = False) -> Scores:
    """Return a network's probabilities of each class, (n, classes).

    Args:
        model: gives logits.
        inputs: what it takes, (n, ...).
        is_multilabel: whether a row has any number of classes.
    """
    device = next(model.parameters()).device
    return run_batches(
        lambda batch: model(batch).sigmoid() if is_multilabel else model(batch).softmax(1), inputs, device
    )
