"""What networks of images and of texts have in common: how they are fitted, and what they give."""

from typing import Any

import pandas as pd
import torch
from torch import nn

from nightshift.items.shards import Array, ItemTable, labels
from nightshift.models.neural import data
from nightshift.models.neural.data import AugmentedDataset, Change, Gather
from nightshift.tasks.items.networks import FitSetup, Scores, run_batches


def gather_dataset(
    setup: FitSetup[Any], items: ItemTable, rows: pd.DataFrame, size: int, change: Change
) -> AugmentedDataset:
    """Return what a network is trained on.

    Args:
        setup: task and device.
        items: of the training.
        rows: those of them that train.
        size: rows of a batch.
        change: what is done to a batch, on the device.
    """
    device = setup.torch_device
    known = torch.from_numpy(labels(rows, setup.task.classes)).to(device)
    is_small = items.shards.width * len(rows) <= setup.resident
    gather = (
        data.gather_resident(torch.from_numpy(items.inputs(rows)).to(device))
        if is_small
        else _gather_from_disk(items, rows, device)
    )
    return AugmentedDataset(gather, known, size, change)


def probabilities(model: nn.Sequential, inputs: Array) -> Scores:
    """Return a network's probabilities of each class, (n, classes).

    Args:
        model: gives logits.
        inputs: what it takes, (n, ...).
    """
    return run_batches(lambda batch: model(batch).softmax(1), inputs, next(model.parameters()).device)


def _gather_from_disk(items: ItemTable, rows: pd.DataFrame, device: torch.device) -> Gather:
    numbers = rows.index.to_numpy()
    return data.gather_streamed(lambda chosen: items.shards.take(numbers[chosen]), items.shards.width, device)
