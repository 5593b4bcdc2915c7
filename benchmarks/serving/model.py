"""The model of all servers: a perceptron of the size of the fraud use case's, with random weights.

Our server has it with the windows of `benchmarks.online`, and a snapshot of that benchmark's world for raw events.
"""

import json
from datetime import timedelta
from pathlib import Path

import numpy as np
import onnx
import pandas as pd

from benchmarks.online import CHOSEN, CUSTOMERS, DAYS, LAST, ROWS_A_DAY, TERMINALS, world
from nightshift import storage
from nightshift.contracts import package
from nightshift.contracts.preprocessing import Inputs, TabularPreprocessing
from nightshift.serving import files
from nightshift.tabular.online import snapshot
from nightshift.tasks.tabular.features import core
from nightshift_testkit import packages

INPUTS = core.numeric_inputs(CHOSEN)
WIDTH, HIDDEN = len(INPUTS), 256
NAME = "fraud"
NEXT = LAST + timedelta(days=1)  # the day of the events


def graph() -> bytes:
    """Return `inputs` float32 (n, 15) -> `score` float32 (n,) as ONNX."""
    random, make = np.random.default_rng(0), onnx.helper

    def weights(name: str, *shape: int):
        return onnx.numpy_helper.from_array(random.normal(0, 0.1, shape).astype(np.float32), name)

    nodes = [
        make.make_node("Gemm", [package.INPUT, "w1", "b1"], ["hidden"]),
        make.make_node("Relu", ["hidden"], ["active"]),
        make.make_node("Gemm", ["active", "w2", "b2"], ["logit"]),
        make.make_node("Sigmoid", ["logit"], ["column"]),
        make.make_node("Reshape", ["column", "flat"], [package.OUTPUT]),
    ]
    body = make.make_graph(
        nodes,
        "fraud",
        [make.make_tensor_value_info(package.INPUT, onnx.TensorProto.FLOAT, ["n", WIDTH])],
        [make.make_tensor_value_info(package.OUTPUT, onnx.TensorProto.FLOAT, ["n"])],
        [weights("w1", WIDTH, HIDDEN), weights("b1", HIDDEN), weights("w2", HIDDEN, 1), weights("b2", 1),
         onnx.numpy_helper.from_array(np.array([-1]), "flat")],
    )  # fmt: skip
    return make.make_model(body, opset_imports=[make.make_opsetid("", 17)], ir_version=9).SerializeToString()


def write(folder: Path) -> None:
    """Write the model as `model.onnx` and as a package in `package/`, and a request's body in each format."""
    content, spec = graph(), CHOSEN.feature_spec
    inputs = Inputs(numeric=INPUTS, categorical={})
    preprocessing = TabularPreprocessing(**dict(inputs), features=spec)
    candidates = {"mlp": packages.candidate("mlp", parameters={})}
    manifest = packages.manifest({"mlp": content}, inputs, candidates=candidates, preprocessing=preprocessing)
    (folder / "model.onnx").write_bytes(content)
    reference = pd.DataFrame(0.0, index=range(2), columns=[*inputs.numeric, "label", "score"])
    package.save(str(folder / "package"), manifest, {"mlp": content}, reference)
    values = [round(float(value), 4) for value in np.random.default_rng(1).normal(size=WIDTH)]
    tensor = {"name": package.INPUT, "shape": [1, WIDTH], "datatype": "FP32", "data": values}
    event = {"event_id": 0, "event_time": f"{NEXT}T00:00:00Z", "customer": 1, "terminal": 2, "amount": 3.5}
    bodies = {
        "tensors": {"inputs": [tensor]},
        "features": {"instances": [dict(zip(inputs.numeric, values, strict=True))]},
        "rows": {"inputs": [values]},
        "events": {"events": [event]},
    }
    for name, body in bodies.items():
        (folder / f"{name}.json").write_text(json.dumps(body))


def point(folder: Path, snapshot: str | None = None, version: int = 1) -> None:
    """Point to the package in the registry `folder`; a snapshot is needed for raw events."""
    uri = str(folder / "package")
    pointer = files.DeploymentPointer(version, uri, package.load(uri).sha256, "2026-01-01T00:00:00+00:00", snapshot)
    storage.write_json(files.pointer_uri(str(folder), NAME), vars(pointer))


def snapshot_of_the_past(folder: Path) -> str:
    """Write a snapshot up to the day before the events; return its URI."""
    uri = str(folder / "online" / f"date={LAST}" / "world.state")
    if not Path(uri).exists():
        events = world(DAYS, CUSTOMERS, TERMINALS, ROWS_A_DAY)
        snapshot.write(uri, *snapshot.build_snapshot(CHOSEN, DAYS, events))
    return uri
