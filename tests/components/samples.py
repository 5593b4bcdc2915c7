"""Small real inputs of the steps that read features and models: Parquet partitions and ONNX bundles on disk."""

import json
import subprocess
import sys
from argparse import Namespace
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from onnx import TensorProto, helper, numpy_helper

from components.scoring import __main__ as scoring
from nightshift import storage
from nightshift.contracts import package, tables
from nightshift.contracts.preprocessing import Inputs
from nightshift.runtime.context import StepContext
from nightshift_testkit import packages
from tests.components.states import state

Array = npt.NDArray[Any]
Value = tuple[str, int, list[int | None]]  # name, type and shape of an input or output

# the test window is 2024-03-18 .. 19, training 15 .. 16, the newest days 19 .. 20
DATE = "2024-03-20"
CONFIG: dict[str, Any] = {
    "name": "tiny",
    "label_delay_days": 1,
    "source": {"files": "{date}.parquet"},
    "columns": {role: role for role in ("event_id", "event_time", "customer", "terminal", "amount", "label")},
    "protocol": {"train_days": 2, "test_days": 2},
    "task": {"kind": "tabular", "candidates": {"first": {"kind": "logistic_regression"}}},
    "evaluation": {"top_k": 2, "min_positives": 2, "min_average_precision": 0.1},
    "drift": {"window_days": 2},
}


def features(rows_a_day: int = 40, seed: int = 0) -> pd.DataFrame:
    """Rows of 2024-03-15 .. 20 with two inputs; every eighth is a fraud, and the last day's labels are not due."""
    rng = np.random.default_rng(seed)
    times = [
        day + pd.Timedelta(minutes=minute)
        for day in pd.date_range("2024-03-15", "2024-03-20")
        for minute in range(rows_a_day)
    ]
    rows = len(times)
    frame = pd.DataFrame({"event_id": np.arange(rows), "event_time": pd.Series(times, dtype="datetime64[us]")})
    frame["customer"] = np.arange(rows)
    frame["label"] = pd.array((np.arange(rows) % 8 == 0).astype(int), dtype="Int8")
    frame["amount"] = rng.random(rows)
    frame["risk"] = rng.random(rows)
    frame.loc[frame["event_time"] >= DATE, "label"] = pd.NA
    return frame


def write_features(folder: Path, frame: pd.DataFrame, **details: Any) -> str:
    """Write a partition a day and the manifest with some details, whose URI is returned."""
    parts = []
    for text, rows in frame.groupby(frame["event_time"].dt.strftime("%Y-%m-%d")):
        day = date.fromisoformat(str(text))
        uri = tables.partition_uri(str(folder / "lake"), "tiny", "features", day, "0" * 16)
        parts.append(tables.write_partition(uri, day, rows, {}))
    replay = {"day": DATE, "rows": 40, "differing": 0, "largest": 0.0, "worst": None}
    tables.write_table(str(folder / "features.json"), tables.Table("features", parts, {"replay": replay} | details))
    return str(folder / "features.json")


def empty(manifest: str, *days: str) -> None:
    """Take all rows of some days out of a table."""
    table = tables.read_table(manifest)
    for i, part in enumerate(table.partitions):
        if part.date in days:
            none = storage.read_frame(part.uri).iloc[:0]
            table.partitions[i] = tables.write_partition(part.uri, date.fromisoformat(part.date), none, {})
    tables.write_table(manifest, table)


def linear(weights: list[float]) -> bytes:
    """An ONNX graph whose score is the weighted sum of the inputs."""
    nodes = [
        helper.make_node("MatMul", [package.INPUT, "weights"], ["column"]),
        helper.make_node("Reshape", ["column", "flat"], [package.OUTPUT]),
    ]
    constants = {"weights": np.array(weights, dtype=np.float32)[:, None], "flat": np.array([-1], dtype=np.int64)}
    taken = (package.INPUT, TensorProto.FLOAT, [None, len(weights)])
    return serialized(nodes, taken, [(package.OUTPUT, TensorProto.FLOAT, [None])], constants)


def serialized(nodes: list[Any], taken: Value, results: list[Value], constants: dict[str, Array]) -> bytes:
    """A graph with these nodes, an input, outputs and constants."""
    (first, *others) = [helper.make_tensor_value_info(*value) for value in (taken, *results)]
    kept = [numpy_helper.from_array(value, name) for name, value in constants.items()]
    graph = helper.make_graph(nodes, "sample", [first], others, kept)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    return bytes(model.SerializeToString())


def write_model(
    folder: Path,
    weights: dict[str, list[float]],
    reference: pd.DataFrame | None = None,
    inputs: tuple[str, ...] = ("amount", "risk"),
    trained_until: str = "2024-03-16",
    validated_until: str = "2024-03-16",
    files: Sequence[tuple[str, bytes]] = (),
) -> package.ModelPackage:
    """Write a package of linear candidates, the first of them selected, and of further files."""
    graphs = {name: linear(values) for name, values in weights.items()}
    train, validation = (
        packages.DAYS.model_copy(update={"last": date.fromisoformat(last)}) for last in (trained_until, validated_until)
    )
    days = {day.date(): 40 for day in pd.date_range("2024-03-03", "2024-03-16")}
    made_from = packages.lineage(train=train, validation=validation, days=days)
    model = packages.manifest(graphs, Inputs(numeric=inputs, categorical={}), made_from)
    return package.save(str(folder), model, graphs, pd.DataFrame() if reference is None else reference, files)


def score(folder: Path, features: str) -> str:
    """Run the scoring step with the folder's model; the URI of what it has written is returned."""
    values = {"state": state(folder), "model": str(folder / "model"), "scores": str(folder / "scores")}
    scoring.body(context(features=features, **values))
    return values["scores"]


def context(**values: str) -> StepContext:
    """The context of a step that is started with these flags."""
    return StepContext(flags(**values))


def flags(**values: str) -> Namespace:
    """The flags of a step, as its parser returns them."""
    return Namespace(**{"config": json.dumps(CONFIG), "date": DATE} | values)


def run(component: str, environment: dict[str, str] | None = None, **values: str) -> subprocess.CompletedProcess[str]:
    """Run a step as its own process."""
    options = [part for name, value in vars(flags(**values)).items() for part in (f"--{name.replace('_', '-')}", value)]
    command = [sys.executable, "-m", f"components.{component}", *options]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
