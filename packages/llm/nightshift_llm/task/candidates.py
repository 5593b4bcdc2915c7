"""Next-token predictors: their recipes, their training, and their files in a package."""

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from torch import nn

from nightshift import storage
from nightshift.config.section import check_parameters
from nightshift.items.tokens import Tokens
from nightshift.models.neural import packing
from nightshift.models.neural.data import gather_array
from nightshift.models.neural.packing import PackedDataset
from nightshift.models.recipes import pretrained
from nightshift.models.weights import WeightFile, divide
from nightshift.runtime.errors import UserError
from nightshift.storage import once
from nightshift.tasks.fitting import Fitted
from nightshift.tasks.items import networks
from nightshift.tasks.items.networks import FitSetup
from nightshift_llm import checkpoint
from nightshift_llm.config import LanguageTaskConfig
from nightshift_llm.recipes.llama import Llama, LlamaParameters
from nightshift_llm.task import documents, onnx_export, tokens
from nightshift_llm.task.onnx_export import read_weights
from nightshift_llm.task.tokens import ByteTokenizer, load_tokenizer

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM


def fit(setup: FitSetup[LanguageTaskConfig], name: str, rows: pd.DataFrame) -> Fitted:
    """Fit a candidate of the config on rows of the features table.

    Raises:
        UserError: when a parameter is refused, or pretrained weights cannot be had.
    """
    task, architecture, tokenizer = setup.task, recipe(setup.task, name), load_tokenizer(setup.task)
    trained = networks.fit(setup, name, architecture, rows, pack(setup, architecture, rows))
    causal = architecture.causal(trained.model)
    files = divide(name, read_weights(causal), setup.in_graph)
    return Fitted(
        partial(onnx_export.export_llama, causal, task.length, tokenizer.byte_lengths, files),
        partial(measure_rows, trained.model, tokenizer),
        trained.losses,
        trained.validation_losses,
        partial(save_weights, causal, files),
        trained.choices,
    )


def recipe(task: LanguageTaskConfig, name: str) -> Llama:
    """Return the recipe of a candidate of the config.

    Raises:
        UserError: when it refuses a parameter.
    """
    field, tokenizer = networks.field(name), load_tokenizer(task)
    parameters = check_parameters(LlamaParameters, field, task.candidates[name].parameters)
    if parameters.pretrained and task.tokenizer is None and not _has_tokenizer(field, parameters.pretrained, tokenizer):
        raise UserError(f"{field}.pretrained: its tokens are not bytes; name its tokenizer.json as task.tokenizer")
    return Llama(field, tokenizer.vocabulary, tokenizer.start, task.length, parameters)


def _has_tokenizer(field: str, name: str, tokenizer: ByteTokenizer) -> bool:
    """Return whether pretrained weights lie beside a tokenizer, as in a package of ours."""
    file = pretrained.locate(f"{field}.pretrained", name) / tokens.FILE
    return file.exists() and file.read_bytes() == tokenizer.content


def pack(setup: FitSetup[LanguageTaskConfig], architecture: Llama, rows: pd.DataFrame) -> PackedDataset:
    """Return the training data of a network from rows of the features table, packed once on a machine."""
    start, length, targets = architecture.start, architecture.length, architecture.targets
    key = [storage.fingerprint(list(rows["content"])), start, length]
    packed = once.compute_array(setup.shared, key, lambda: packing.pack(documents.read_tokens(rows), start, length))
    counts = once.compute_array(setup.shared, [*key, targets.vocabulary], lambda: targets.count(packed))
    known = torch.from_numpy(counts).to(setup.torch_device)
    gather = gather_array(packed, setup.resident, setup.torch_device)
    return PackedDataset(gather, known, architecture.fit.batch_size, targets)


def measure_rows(model: nn.Sequential, tokenizer: ByteTokenizer, rows: Tokens) -> npt.NDArray[np.float32]:
    """Return a network's bits per byte of rows, (n, length + 1) -> (n,)."""
    nats = networks.run_batches(model, rows % tokenizer.vocabulary, next(model.parameters()).device)
    sizes = tokenizer.byte_lengths[rows[:, 1:]]
    bits = (nats * (sizes > 0)).sum(1, dtype=float) / np.log(2)
    scores: npt.NDArray[np.float32] = (bits / np.maximum(sizes.sum(1), 1)).astype(np.float32)
    return scores


def save_weights(causal: "LlamaForCausalLM", files: Sequence[WeightFile] = ()) -> Iterator[tuple[str, bytes]]:
    """Yield the files from which engines load a `transformers` model: the config, then the weights or their index.

    Args:
        causal: the model.
        files: weight files beside the graph, which hold its weights.
    """
    shape = causal.config.to_dict() | {"architectures": [type(causal).__name__]}
    yield checkpoint.CONFIG, json.dumps(shape, indent=2).encode()
    if not files:
        yield checkpoint.WEIGHTS, WeightFile(checkpoint.WEIGHTS, read_weights(causal)).content
        return
    sizes = [tensor.nbytes for file in files for tensor in file.tensors.values()]
    index = {
        "metadata": {"total_size": sum(sizes)},
        "weight_map": {name: file.name for file in files for name in file.tensors},
    }
    yield checkpoint.INDEX, json.dumps(index, indent=2).encode()
