"""A small use case with texts: topics, made by the simulator; `tests.components.pictures` runs the steps."""

from copy import deepcopy
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from onnx import TensorProto, helper

from nightshift.config import parse
from nightshift.config.texts import TextTaskConfig
from nightshift.contracts import package, tables
from nightshift.contracts.package import Datatype, DecisionRule, Signature, Tensor
from nightshift.tasks.texts import candidates
from nightshift_testkit import packages
from tests.components import pictures, samples
from tests.components.pictures import Weights

CONFIG: dict[str, Any] = {
    "name": "topics",
    "label_delay_days": 0,
    "source": {"files": "{date}.parquet"},
    "columns": {"event_id": "text_id", "event_time": "time", "text": "text", "label": "label"},
    "simulator": {"items": 24},
    "protocol": {"train_days": 3, "test_days": 2},
    "task": {
        "kind": "text-classification",
        "classes": ["finance", "health", "sports", "travel"],
        "length": 16,
        "vocabulary": 512,
        "candidates": {
            "words": {"kind": "tfidf", "parameters": {"C": 10.0}},
            "bert": {
                "kind": "bert",
                "parameters": {"epochs": 2, "batch_size": 24, "width": 16, "heads": 2, "layers": 1, "threads": 1},
            },
        },
    },
    "evaluation": {"min_rows": 20, "min_accuracy": 0.0},
}


def config(**task: Any) -> dict[str, Any]:
    """The config with some fields of its task replaced."""
    edited = deepcopy(CONFIG)
    edited["task"] |= task
    return edited


def task(**fields: Any) -> TextTaskConfig:
    parsed = parse(config(**fields)).task
    assert isinstance(parsed, TextTaskConfig)
    return parsed


def prepare(folder: Path, config: dict[str, Any] = CONFIG) -> None:
    """Ingest the simulated days and make their shards."""
    pictures.ingest(folder, config)
    pictures.feature(folder, config)


def lake(folder: Path, *texts: str) -> None:
    """Put texts into the lake as ingestion does."""
    uri = tables.partition_uri(str(folder / "lake"), "topics", "events", date(2024, 3, 10), "0" * 16)
    tables.write_partition(uri, date(2024, 3, 10), pd.DataFrame({"text": texts}), {})


def model(folder: Path, seed: int = 0, weights: Weights | None = None) -> str:
    """Save a package that adds up a weight of each token of the texts of `CONFIG`, and return its URI.

    The weights are drawn by a seed, unless they are given, (vocabulary, classes).
    """
    texts = task()
    drawn = np.random.default_rng(seed).normal(0, 0.1, (texts.vocabulary, len(texts.classes)))
    graphs = {"words": graph(drawn if weights is None else weights)}
    manifest = packages.manifest(
        graphs,
        signature=Signature.of_scores(Tensor.of_rows(Datatype.INT32, texts.length), classes=len(texts.classes)),
        preprocessing=candidates.preprocessing(texts),
        decision=DecisionRule(threshold=None),
    )
    package.save(str(folder), manifest, graphs, pd.DataFrame())
    return str(folder)


def graph(weights: Weights) -> bytes:
    """An ONNX graph `inputs` -> `score`."""
    nodes = [
        helper.make_node("Gather", ["weights", package.INPUT], ["votes"]),
        helper.make_node("ReduceSum", ["votes", "places"], ["logits"], keepdims=0),
        helper.make_node("Softmax", ["logits"], [package.OUTPUT], axis=1),
    ]
    constants = {"weights": weights.astype(np.float32), "places": np.array([1], dtype=np.int64)}
    taken = (package.INPUT, TensorProto.INT32, [None, None])
    return samples.serialized(nodes, taken, [(package.OUTPUT, TensorProto.FLOAT, [None, weights.shape[1]])], constants)
