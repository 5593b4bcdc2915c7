"""The model that every server serves: a perceptron of the size of the fraud use case's, with weights by chance."""

import json
from pathlib import Path

import numpy as np
import onnx
import pandas as pd

from components.common.contracts import package
from components.common.contracts.package import Inputs
from tests import packages

WIDTH, HIDDEN = 15, 256


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
    """Write it as `model.onnx`, as a package of ours below `package/`, and a request's body of each form."""
    content, inputs = graph(), Inputs(numeric=[f"input_{i}" for i in range(WIDTH)], categorical={})
    manifest = packages.manifest({"mlp": content}, inputs, candidates={"mlp": packages.candidate("mlp", parameters={})})
    (folder / "model.onnx").write_bytes(content)
    reference = pd.DataFrame(0.0, index=range(2), columns=[*inputs.numeric, "label", "score"])
    package.save(str(folder / "package"), manifest, {"mlp": content}, reference)
    values = [round(float(value), 4) for value in np.random.default_rng(1).normal(size=WIDTH)]
    tensor = {"name": package.INPUT, "shape": [1, WIDTH], "datatype": "FP32", "data": values}
    bodies = {
        "tensors": {"inputs": [tensor]},
        "features": {"instances": [dict(zip(inputs.numeric, values, strict=True))]},
        "rows": {"inputs": [values]},
    }
    for name, body in bodies.items():
        (folder / f"{name}.json").write_text(json.dumps(body))
