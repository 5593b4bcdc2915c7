"""What networks of images and of texts have in common: how they are fitted, and what they give."""

from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

from nightshift.items.shards import Array, ItemTable, labels
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
    device = setup.torch_device
    numbers = labels(rows, setup.task.classes, setup.task.is_multilabel)
    known = torch.from_numpy(numbers.astype(np.float32) if numbers.ndim == 2 else numbers).to(device)
    is_small = items.shards.width * len(rows) <= setup.resident
    gather = (
        data.gather_resident(torch.from_numpy(items.inputs(rows)).to(device))
        if is_small
        else _gather_from_disk(items, rows, device)
    )
    return AugmentedDataset(gather, known, size, change)


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


def _gather_from_disk(items: ItemTable, rows: pd.DataFrame, device: torch.device) -> Gather:
    numbers = rows.index.to_numpy()
    return data.gather_streamed(lambda chosen: items.shards.take(numbers[chosen]), items.shards.width, device)
