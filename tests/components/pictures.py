"""A small use case with images: shapes, made by the simulator, ingested and turned into shards once."""

import json
from argparse import Namespace
from copy import deepcopy
from datetime import date
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from onnx import TensorProto, helper
from PIL import Image

from components.features import __main__ as features
from components.ingestion import __main__ as ingestion
from components.training import __main__ as training
from nightshift.config import Config, parse
from nightshift.contracts import package, tables
from nightshift.contracts import preprocessing as parts
from nightshift.contracts.package import Datatype, DecisionRule, Signature, Tensor
from nightshift.data import splits
from nightshift.data.dates import parse_date
from nightshift.runtime.context import StepContext
from nightshift_testkit import packages
from tests.components import samples
from tests.components.states import state

Weights = npt.NDArray[np.floating[Any]]

DATE = "2024-03-10"
LIMITS = {"min_side": 8, "max_pixels": 50_000_000}
# test 9 .. 10, training 6 .. 8; validation 7 .. 8, its training 4 .. 6
CONFIG: dict[str, Any] = {
    "name": "shapes",
    "label_delay_days": 0,
    "source": {"files": "{date}.parquet"},
    "columns": {"event_id": "image_id", "event_time": "time", "image": "image", "label": "label"},
    "simulator": {"items": 24},
    "protocol": {"train_days": 3, "test_days": 2},
    "task": {
        "kind": "image-classification",
        "classes": ["circle", "cross", "square", "triangle"],
        "side": 16,
        "channels": 1,
        "candidates": {
            "resnet": {
                "kind": "resnet",
                "parameters": {"epochs": 6, "batch_size": 24, "width": 4, "stages": "1,1", "threads": 1},
            }
        },
    },
    "evaluation": {"min_rows": 20, "min_accuracy": 0.0},
}


def config(**changes: Any) -> dict[str, Any]:
    """The config with some sections' fields replaced, `task={"side": 8}`."""
    edited = deepcopy(CONFIG)
    for section, fields in changes.items():
        edited[section] = {**edited.get(section, {}), **fields} if isinstance(fields, dict) else fields
    return edited


def parsed(**changes: Any) -> Config:
    return parse(config(**changes))


def ingest(folder: Path, config: dict[str, Any], data: str = "simulator") -> tables.Table:
    """Run the step and return its manifest."""
    events = str(folder / "events.json")
    flags = {"config": json.dumps(config), "date": DATE, "data": data, "state": state(folder), "events": events}
    ingestion.body(StepContext(Namespace(**flags)))
    return tables.read_table(events)


def feature(folder: Path, config: dict[str, Any]) -> tuple[tables.Table, dict[str, float]]:
    """Run the step on what was ingested; return its manifest and what it reports."""
    uri = str(folder / "features.json")
    flags = {"config": json.dumps(config), "date": DATE, "device": "cpu", "state": state(folder)}
    metrics = features.body(StepContext(Namespace(**flags, events=str(folder / "events.json"), features=uri)))
    return tables.read_table(uri), metrics


def train(folder: Path, config: dict[str, Any], name: str = "model") -> tuple[package.ModelPackage, dict[str, Any]]:
    """Run the step on the features; return the package that it has written and what it reports."""
    flags = {"config": json.dumps(config), "date": DATE, "device": "cpu", "state": state(folder)}
    uri = str(folder / name)
    metrics = training.body(StepContext(Namespace(**flags, features=str(folder / "features.json"), model=uri)))
    return package.load(uri), metrics


def prepare(folder: Path) -> tables.Table:
    """Ingest the simulated days and make their shards."""
    ingest(folder, CONFIG)
    return feature(folder, CONFIG)[0]


def plan() -> splits.Plan:
    return splits.plan(parse(CONFIG), parse_date(DATE))


def file(
    kind: str = "PNG", mode: str = "RGB", size: tuple[int, int] = (20, 12), seed: int = 0, **options: Any
) -> bytes:
    """An image file of noise."""
    noise = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    return bytes_of(Image.fromarray(noise).convert(mode), kind, **options)


def bytes_of(image: Image.Image, kind: str, **options: Any) -> bytes:
    buffer = BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def lake(folder: Path, *contents: bytes) -> None:
    """Put images into the lake as ingestion does, on two days; those given are the newer one's."""
    for day, held in ((date(2024, 3, 9), [file(seed=9)]), (date(2024, 3, 10), list(contents))):
        uri = tables.partition_uri(str(folder / "lake"), "shapes", "events", day, "0" * 16)
        tables.write_partition(uri, day, pd.DataFrame({"image": held}), {})


def model(folder: Path, seed: int = 0, weights: Weights | None = None, **rules: int) -> str:
    """Save a package of a network of one layer over the squares of `CONFIG`, and return its URI.

    Its weights are drawn by a seed, unless they are given, (pixels, classes).
    """
    task = CONFIG["task"]
    side, channels, classes = task["side"], task["channels"], task["classes"]
    drawn = np.random.default_rng(seed).normal(0, 1e-3, (side * side * channels, len(classes)))
    graphs = {"linear": graph(drawn if weights is None else weights)}
    manifest = packages.manifest(
        graphs,
        signature=Signature.of_scores(Tensor.of_rows(Datatype.UINT8, side, side, channels), classes=len(classes)),
        preprocessing=parts.ImagePreprocessing(side=side, channels=channels, classes=classes, **{**LIMITS, **rules}),
        decision=DecisionRule(threshold=None),
    )
    package.save(str(folder), manifest, graphs, pd.DataFrame())
    return str(folder)


def graph(weights: Weights) -> bytes:
    """An ONNX graph `inputs` -> `score`, and another output beside it."""
    nodes = [
        helper.make_node("Cast", [package.INPUT], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("Flatten", ["numbers"], ["embedding"]),
        helper.make_node("MatMul", ["embedding", "weights"], ["logits"]),
        helper.make_node("Softmax", ["logits"], [package.OUTPUT], axis=1),
    ]
    pixels, classes = weights.shape
    taken = (package.INPUT, TensorProto.UINT8, [None, None, None, None])
    results = [
        ("embedding", TensorProto.FLOAT, [None, pixels]),
        (package.OUTPUT, TensorProto.FLOAT, [None, classes]),
    ]
    return samples.serialized(nodes, taken, results, {"weights": weights.astype(np.float32)})
