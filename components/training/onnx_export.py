"""ONNX graphs written by hand: two shapes cover every kind of model, and the same model gives the same bytes.

`inputs` float32 (n, d) -> `score` float32 (n,). The operators: https://onnx.ai/onnx/operators/.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import NodeProto, TensorProto, checker, helper, numpy_helper

from components.common.contracts.package import INPUT, OUTPUT
from components.tabular.scaler import Matrix, Scaler

Integers = npt.NDArray[np.integer[Any]]

# old enough for every server that is still in use, new enough for all that is needed here
OPSETS = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
IR_VERSION = 8


@dataclass(frozen=True)
class Tree:
    """A binary tree as arrays over its nodes, the root first.

    Attributes:
        left: node taken when the comparison holds, -1 at a leaf.
        right: node taken when it does not, -1 at a leaf.
        feature: input compared; any at a leaf.
        threshold: compared with, float32; any at a leaf.
        value: what a leaf adds to the score, float32; any at an inner node.
    """

    left: Integers
    right: Integers
    feature: Integers
    threshold: Matrix
    value: Matrix


def dense(scaler: Scaler, layers: Sequence[tuple[Matrix, Matrix]]) -> bytes:
    """Return `sigmoid` of a stack of linear layers with ReLU between them, over standardised inputs.

    Args:
        scaler: standardises the inputs.
        layers: weights (out, in) and biases (out,), float32; the last one has a single output.
    """
    constants = {"mean": scaler.mean, "scale": scaler.scale}
    nodes = [
        helper.make_node("Sub", [INPUT, "mean"], ["centered"]),
        helper.make_node("Div", ["centered", "scale"], ["x0"]),
    ]
    for i, (weights, bias) in enumerate(layers):
        constants |= {f"weights{i}": weights, f"bias{i}": bias}
        nodes.append(helper.make_node("Gemm", [f"x{i}", f"weights{i}", f"bias{i}"], [f"linear{i}"], transB=1))
        nodes.append(helper.make_node("Relu", [f"linear{i}"], [f"x{i + 1}"]))
    nodes[-1] = helper.make_node("Sigmoid", [f"linear{len(layers) - 1}"], ["column"])
    return _model(nodes, len(scaler.mean), constants)


def forest(trees: Sequence[Tree], inputs: int, comparison: str, base: float, logits: bool) -> bytes:
    """Return a sum of trees.

    Args:
        trees: the trees.
        inputs: width of the matrix.
        comparison: `BRANCH_LT` or `BRANCH_LEQ`, which goes left.
        base: added to the sum.
        logits: whether the sum is a logit, else it is the probability.
    """
    ensemble = helper.make_node(
        "TreeEnsembleRegressor",
        [INPUT],
        ["sum"],
        domain="ai.onnx.ml",
        n_targets=1,
        base_values=[base],
        **_node_attributes(trees, comparison),
        **_leaf_attributes(trees),
    )
    return _model([ensemble, helper.make_node("Sigmoid" if logits else "Identity", ["sum"], ["column"])], inputs, {})


def _node_attributes(trees: Sequence[Tree], comparison: str) -> dict[str, list[Any]]:
    leaf = _joined([tree.left < 0 for tree in trees])
    return {
        "nodes_treeids": _joined([np.full(len(tree.left), i) for i, tree in enumerate(trees)]).tolist(),
        "nodes_nodeids": _joined([np.arange(len(tree.left)) for tree in trees]).tolist(),
        "nodes_modes": np.where(leaf, "LEAF", comparison).tolist(),
        "nodes_truenodeids": np.where(leaf, 0, _joined([tree.left for tree in trees])).tolist(),
        "nodes_falsenodeids": np.where(leaf, 0, _joined([tree.right for tree in trees])).tolist(),
        "nodes_featureids": np.where(leaf, 0, _joined([tree.feature for tree in trees])).tolist(),
        "nodes_values": np.where(leaf, 0, _joined([tree.threshold for tree in trees])).tolist(),
    }


def _leaf_attributes(trees: Sequence[Tree]) -> dict[str, list[Any]]:
    leaves = [np.flatnonzero(tree.left < 0) for tree in trees]
    return {
        "target_treeids": _joined([np.full(len(nodes), i) for i, nodes in enumerate(leaves)]).tolist(),
        "target_nodeids": _joined(leaves).tolist(),
        "target_ids": [0] * sum(len(nodes) for nodes in leaves),
        "target_weights": _joined([tree.value[nodes] for tree, nodes in zip(trees, leaves, strict=True)]).tolist(),
    }


def _joined(arrays: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    return np.concatenate(arrays)


def _model(nodes: list[NodeProto], inputs: int, constants: dict[str, npt.NDArray[Any]]) -> bytes:
    """Return the serialized model; the last node leaves a `column` (n, 1)."""
    nodes = [*nodes, helper.make_node("Reshape", ["column", "flat"], [OUTPUT])]
    constants = constants | {"flat": np.array([-1], dtype=np.int64)}
    graph = helper.make_graph(
        nodes,
        "model",
        [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, [None, inputs])],
        [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, [None])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=OPSETS, ir_version=IR_VERSION)
    checker.check_model(model, full_check=True)
    return bytes(model.SerializeToString(deterministic=True))
