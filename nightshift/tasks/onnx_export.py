"""ONNX graphs written by hand: two shapes cover every kind of model, and the same model gives the same bytes.

`inputs` float32 (n, d) -> `score` float32 (n,), or (n, classes). The operators: https://onnx.ai/onnx/operators/.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from onnx import NodeProto, TensorProto, ValueInfoProto, checker, helper, numpy_helper
from torch import nn

from nightshift.contracts.package import EMBEDDING, INPUT, OUTPUT
from nightshift.models.recipes.resnet import ClassifierHead, Residual, ResNet, Stem
from nightshift.models.weights import LargeGraph, WeightFile
from nightshift.tabular.scaler import Matrix, Scaler

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
        value: what a leaf adds to the score, or to that of each class, float32 (nodes,) or (nodes, classes); any at an
            inner node.
        missing_left: whether a missing number goes left, (nodes,); None where no number may be missing.
        cover: training rows that come to a node, or their weight; None where that is not known.
    """

    left: Integers
    right: Integers
    feature: Integers
    threshold: Matrix
    value: Matrix
    missing_left: npt.NDArray[Any] | None = None
    cover: npt.NDArray[Any] | None = None


class Forest(NamedTuple):
    """A function of a sum of trees; see `forest`."""

    trees: Sequence[Tree]
    inputs: int
    comparison: str
    base: float
    link: str


def dense(scaler: Scaler, layers: Sequence[tuple[Matrix, Matrix]], link: str = "Sigmoid") -> bytes:
    """Return a function of a stack of linear layers with ReLU between them, over standardized inputs.

    Args:
        scaler: standardises the inputs.
        layers: weights (out, in) and biases (out,), float32; the last one has a single output, or one a class.
        link: the function, an operator of ONNX: `Sigmoid`, `Identity` or `Exp`; of several classes, `Softmax`.
    """
    constants = {"mean": scaler.mean, "scale": scaler.scale}
    standardized = "standardized" if scaler.imputes else "x0"
    nodes = [
        helper.make_node("Sub", [INPUT, "mean"], ["centered"]),
        helper.make_node("Div", ["centered", "scale"], [standardized]),
    ]
    if scaler.imputes:
        constants["zero"] = np.zeros((), np.float32)
        nodes.append(helper.make_node("IsNaN", [standardized], ["is_missing"]))
        nodes.append(helper.make_node("Where", ["is_missing", "zero", standardized], ["x0"]))
    for i, (weights, bias) in enumerate(layers):
        constants |= {f"weights{i}": weights, f"bias{i}": bias}
        nodes.append(helper.make_node("Gemm", [f"x{i}", f"weights{i}", f"bias{i}"], [f"linear{i}"], transB=1))
        nodes.append(helper.make_node("Relu", [f"linear{i}"], [f"x{i + 1}"]))
    nodes[-1] = helper.make_node(link, [f"linear{len(layers) - 1}"], ["column"])
    return of_rows(nodes, len(scaler.mean), constants, len(layers[-1][1]))


def images(model: nn.Sequential, recipe: ResNet) -> bytes:
    """Return the probabilities of a residual network, `inputs` uint8 (n, side, side, channels) -> `score` (n, classes).

    The input of its last layer is the output `embedding`, float32 (n, width). Batch normalizations are folded into the
    convolutions before them.
    """
    graph = GraphBuilder()
    pixels = graph.node("Cast", INPUT, to=TensorProto.FLOAT)
    *blocks, head = model
    scale, shift = (graph.constant(np.array(values, np.float32)) for values in (recipe.shape.scale, recipe.shape.shift))
    x = graph.node("Transpose", graph.node("Sub", graph.node("Div", pixels, scale), shift), perm=[0, 3, 1, 2])
    for block in blocks:
        x = graph.module(block, x)
    assert isinstance(head, ClassifierHead)
    input_info = helper.make_tensor_value_info(
        INPUT, TensorProto.UINT8, [None, recipe.side, recipe.side, recipe.channels]
    )
    widths = (head.linear.in_features, recipe.classes)
    return graph.classifier(input_info, graph.head(head, x), widths, recipe.is_multilabel)


def forest(trees: Sequence[Tree], inputs: int, comparison: str, base: float | Sequence[float], link: str) -> bytes:
    """Return a function of a sum of trees.

    Args:
        trees: the trees.
        inputs: width of the matrix.
        comparison: `BRANCH_LT` or `BRANCH_LEQ`, which goes left.
        base: added to the sum; of several classes, one each.
        link: the function, an operator of ONNX: `Sigmoid` or `Softmax` of logits, `Identity`, or `Exp` of logarithms.
    """
    attributes: dict[str, Any] = {"base_values": [base], "n_targets": 1}
    nodes, constants, width = [helper.make_node(link, ["sum"], ["column"])], dict[str, npt.NDArray[Any]](), 1
    if not isinstance(base, float):
        # added apart: of a class that no leaf of a row names, ONNX Runtime leaves base_values out
        width, constants = len(base), {"base": np.array(base, np.float32)}
        attributes = {"n_targets": width}
        nodes = [
            helper.make_node("Add", ["sum", "base"], ["based"]),
            helper.make_node(link, ["based"], ["column"]),
        ]
    ensemble = helper.make_node(
        "TreeEnsembleRegressor",
        [INPUT],
        ["sum"],
        domain="ai.onnx.ml",
        **attributes,
        **_node_attributes(trees, comparison),
        **_leaf_attributes(trees),
    )
    return of_rows([ensemble, *nodes], inputs, constants, width)


def _node_attributes(trees: Sequence[Tree], comparison: str) -> dict[str, list[Any]]:
    leaf = _join([tree.left < 0 for tree in trees])
    return {
        "nodes_treeids": _join([np.full(len(tree.left), i) for i, tree in enumerate(trees)]).tolist(),
        "nodes_nodeids": _join([np.arange(len(tree.left)) for tree in trees]).tolist(),
        "nodes_modes": np.where(leaf, "LEAF", comparison).tolist(),
        "nodes_truenodeids": np.where(leaf, 0, _join([tree.left for tree in trees])).tolist(),
        "nodes_falsenodeids": np.where(leaf, 0, _join([tree.right for tree in trees])).tolist(),
        "nodes_featureids": np.where(leaf, 0, _join([tree.feature for tree in trees])).tolist(),
        "nodes_values": np.where(leaf, 0, _join([tree.threshold for tree in trees])).tolist(),
    } | _missing_attributes(trees)


def _missing_attributes(trees: Sequence[Tree]) -> dict[str, list[int]]:
    """Return which nodes send a missing number left; nothing where none may be missing."""
    missing_left = [tree.missing_left for tree in trees if tree.missing_left is not None]
    return {"nodes_missing_value_tracks_true": _join(missing_left).astype(int).tolist()} if missing_left else {}


def _leaf_attributes(trees: Sequence[Tree]) -> dict[str, list[Any]]:
    """Return what the leaves add; to classes, what is not 0, and whatever it is for the first one."""
    columns: dict[str, list[Any]] = {"treeids": [], "nodeids": [], "ids": [], "weights": []}
    for number, tree in enumerate(trees):
        nodes = np.flatnonzero(tree.left < 0)
        values = tree.value[nodes].reshape(len(nodes), -1)
        leaves, classes = np.nonzero((values != 0) | (np.arange(values.shape[1]) == 0))
        columns["treeids"] += [number] * len(leaves)
        columns["nodeids"] += nodes[leaves].tolist()
        columns["ids"] += classes.tolist()
        columns["weights"] += values[leaves, classes].tolist()
    return {f"target_{name}": column for name, column in columns.items()}


def _join(arrays: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    return np.concatenate(arrays)


def of_rows(nodes: list[NodeProto], inputs: int, constants: dict[str, npt.NDArray[Any]], width: int = 1) -> bytes:
    """Return the graph of a scorer of rows.

    Args:
        nodes: from `inputs` float32 (n, inputs); the last one leaves a `column` (n, width).
        inputs: width of the matrix.
        constants: what they use, by name.
        width: 1, or how many classes there are.
    """
    shape = [] if width == 1 else [width]
    nodes = [*nodes, helper.make_node("Reshape", ["column", "flat"], [OUTPUT])]
    constants = constants | {"flat": np.array([-1, *shape], dtype=np.int64)}
    graph = helper.make_graph(
        nodes,
        "model",
        [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, [None, inputs])],
        [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, [None, *shape])],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    return _check(graph)


class GraphBuilder:
    """Builds a graph, one node or module at a time.

    Args:
        files: weights outside the graph, which nodes use by their names.
    """

    def __init__(self, files: Sequence[WeightFile] = ()) -> None:
        self.files = files
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, npt.NDArray[Any]] = {}

    def constant(self, value: Any) -> str:
        """Return the name of a constant."""
        name = f"c{len(self.constants)}"
        self.constants[name] = np.asarray(value)
        return name

    def node(self, operation: str, *inputs: str, **attributes: Any) -> str:
        """Add an operation; return the name of its output."""
        name = f"x{len(self.nodes)}"
        self.nodes.append(helper.make_node(operation, list(inputs), [name], **attributes))
        return name

    def axes(self, *numbers: int) -> str:
        """Return a constant of integers."""
        return self.constant(np.array(numbers, np.int64))

    def unsqueeze(self, x: str, *axes: int) -> str:
        """Insert axes of length 1."""
        return self.node("Unsqueeze", x, self.axes(*axes))

    def embedding(self, operation: str, *inputs: str, **attributes: Any) -> str:
        """Add the operation whose output is the embedding; return its name."""
        self.nodes.append(helper.make_node(operation, list(inputs), [EMBEDDING], **attributes))
        return EMBEDDING

    def classifier(
        self, input_info: ValueInfoProto, logits: str, widths: tuple[int, int], is_multilabel: bool = False
    ) -> bytes:
        """Return the whole graph: its input -> `score` (n, classes), a function of logits, and `embedding`.

        Args:
            input_info: name, type and shape of the input.
            logits: name of the output with the logits.
            widths: width of the embedding, number of classes.
            is_multilabel: whether the function is the sigmoid, not the softmax.
        """
        link, axis = ("Sigmoid", {}) if is_multilabel else ("Softmax", {"axis": 1})
        nodes = [*self.nodes, helper.make_node(link, [logits], [OUTPUT], **axis)]
        embedding, classes = widths
        return self._finish(nodes, [input_info], {OUTPUT: [None, classes], EMBEDDING: [None, embedding]})

    def scorer(
        self, inputs: Sequence[ValueInfoProto], outputs: Mapping[str, str], shapes: Mapping[str, list[int]]
    ) -> bytes:
        """Return the whole graph: its inputs -> outputs (n, ...), of which `embedding` is there already.

        Args:
            inputs: name, type and shape of each.
            outputs: name of an output -> name of the value that it returns.
            shapes: name of an output -> its shape, without that of the rows.
        """
        nodes = [helper.make_node("Identity", [value], [name]) for name, value in outputs.items()]
        rows = {name: [None, *shape] for name, shape in shapes.items()}
        return self._finish([*self.nodes, *nodes], inputs, rows)

    def _finish(
        self, nodes: list[NodeProto], inputs: Sequence[ValueInfoProto], shapes: Mapping[str, list[int | None]]
    ) -> bytes:
        outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()]
        constants = [numpy_helper.from_array(array, name) for name, array in self.constants.items()]
        shown = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, tensor.shape)
            for file in self.files
            for name, tensor in file.tensors.items()
        ]
        # the checker looks for files that are still to be written, so that it sees their weights as further inputs
        content = _check(helper.make_graph(nodes, "model", [*inputs, *shown], outputs, constants))
        if not self.files:
            return content
        constants += [tensor for file in self.files for tensor in _point_into(file)]
        return LargeGraph(_serialize(helper.make_graph(nodes, "model", inputs, outputs, constants)), self.files)

    def module(self, module: nn.Module, x: str) -> str:
        """Add a module of a residual network after `x`; return the name of its output."""
        if isinstance(module, Residual):
            total = self.node("Add", self.path(module.path, x), self.path(module.shortcut, x))
            return self.node("Relu", total)
        assert isinstance(module, Stem), f"no graph of a {type(module).__name__}"
        return self.path(module.path, x)

    def head(self, head: ClassifierHead, x: str) -> str:
        """Add the last layer, whose input is the embedding; return the name of the logits."""
        pooled = self.embedding("Flatten", self.node("GlobalAveragePool", x))
        weights, bias = (self.constant(_host(parameter)) for parameter in (head.linear.weight, head.linear.bias))
        return self.node("Gemm", pooled, weights, bias, transB=1)

    def path(self, layers: nn.Sequential, x: str) -> str:
        """Add convolutions, with the activations and poolings between them."""
        for layer, after in zip_longest(list(layers), list(layers)[1:]):
            if isinstance(layer, nn.Conv2d):
                assert isinstance(after, nn.BatchNorm2d)
                x = self.convolution(layer, after, x)
            elif isinstance(layer, nn.ReLU):
                x = self.node("Relu", x)
            elif isinstance(layer, nn.MaxPool2d):
                x = self.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
        return x

    def convolution(self, layer: nn.Conv2d, norm: nn.BatchNorm2d, x: str) -> str:
        """Add a convolution with its batch normalization folded in."""
        # in double precision, so that one rounding is all that folding adds
        weight, scale, shift, mean, variance = (
            _host(parameter).astype(np.float64)
            for parameter in (layer.weight, norm.weight, norm.bias, norm.running_mean, norm.running_var)
        )
        factor = scale / np.sqrt(variance + norm.eps)
        folded, bias = weight * factor[:, None, None, None], shift - mean * factor
        constants = [self.constant(array.astype(np.float32)) for array in (folded, bias)]
        shape = {"strides": list(layer.stride), "pads": [*layer.padding, *layer.padding]}
        return self.node("Conv", x, *constants, kernel_shape=list(layer.kernel_size), **shape)


def _host(tensor: Any) -> npt.NDArray[np.float32]:
    return np.asarray(tensor.detach().cpu().numpy(), dtype=np.float32)


def _point_into(file: WeightFile) -> Iterator[TensorProto]:
    """Yield constants whose values a file holds."""
    for name, offset in file.offsets.items():
        tensor = file.tensors[name]
        constant = TensorProto(
            name=name, dims=tensor.shape, data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL
        )
        location = {"location": file.name, "offset": offset, "length": tensor.nbytes}
        for key, value in location.items():
            constant.external_data.add(key=key, value=str(value))
        yield constant


def _check(graph: Any) -> bytes:
    content = _serialize(graph)
    checker.check_model(content, full_check=True)
    return content


def _serialize(graph: Any) -> bytes:
    model = helper.make_model(graph, opset_imports=OPSETS, ir_version=IR_VERSION)
    return bytes(model.SerializeToString(deterministic=True))
