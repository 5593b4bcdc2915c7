"""Graphs made of candidates' graphs: of some columns of the matrix, and of several graphs in one."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import NodeProto, TensorProto, compose, helper, numpy_helper

from nightshift.contracts.package import INPUT, OUTPUT
from nightshift.runtime.errors import UserError
from nightshift.tasks.onnx_export import OPSETS, of_rows

LEAST = 1e-7  # of a probability whose logit is taken; 1 - LEAST is the most

Constants = dict[str, npt.NDArray[Any]]


def select_columns(graph: bytes, columns: Sequence[int], width: int) -> bytes:
    """Return a graph as one of a wider matrix, of which it takes some columns.

    Args:
        graph: `inputs` float32 (n, len(columns)) -> `score` float32 (n,).
        columns: their positions in the matrix.
        width: of the matrix.

    Raises:
        UserError: when the graph is of another opset than ours.
    """
    nodes, constants = _inline(graph, "all_")
    gather = helper.make_node("Gather", [INPUT, "columns"], [f"all_{INPUT}"], axis=1)
    score = helper.make_node("Identity", [f"all_{OUTPUT}"], ["column"])
    return of_rows([gather, *nodes, score], width, constants | {"columns": np.array(columns, np.int64)})


def average_logits(graphs: Sequence[bytes], shares: npt.NDArray[np.float64], width: int) -> bytes:
    """Return one graph of the weighted mean of the logits of several, as a probability.

    Args:
        graphs: `inputs` float32 (n, width) -> `score` float32 (n,).
        shares: of each, 1 in all.
        width: of the matrix.

    Raises:
        UserError: when a graph is of another opset than ours.
    """
    nodes: list[NodeProto] = []
    # in double precision, in which a probability next to 1 keeps its distance from it
    constants: Constants = {
        "shares": shares.reshape(-1, 1),
        "least": np.array(LEAST),
        "most": np.array(1 - LEAST),
        "one": np.array(1.0),
        "second": np.array([1], np.int64),
    }
    scores = []
    for number, graph in enumerate(graphs):
        prefix = f"member{number}_"
        inner, own = _inline(graph, prefix)
        entry = helper.make_node("Identity", [INPUT], [f"{prefix}{INPUT}"])
        nodes += [entry, *inner, helper.make_node("Unsqueeze", [f"{prefix}{OUTPUT}", "second"], [f"column{number}"])]
        constants |= own
        scores.append(f"column{number}")
    mean = [
        helper.make_node("Concat", scores, ["scores"], axis=1),
        helper.make_node("Cast", ["scores"], ["exact"], to=TensorProto.DOUBLE),
        helper.make_node("Clip", ["exact", "least", "most"], ["p"]),
        helper.make_node("Sub", ["one", "p"], ["q"]),
        helper.make_node("Div", ["p", "q"], ["odds"]),
        helper.make_node("Log", ["odds"], ["logits"]),
        helper.make_node("MatMul", ["logits", "shares"], ["mean"]),
        helper.make_node("Sigmoid", ["mean"], ["probability"]),
        helper.make_node("Cast", ["probability"], ["column"], to=TensorProto.FLOAT),
    ]
    return of_rows([*nodes, *mean], width, constants)


def _inline(graph: bytes, prefix: str) -> tuple[list[NodeProto], Constants]:
    """Return the nodes and constants of a graph, all names with a prefix."""
    model = onnx.load_model_from_string(graph)
    ours = {entry.domain: entry.version for entry in OPSETS}
    for entry in model.opset_import:
        if ours.get(entry.domain) != entry.version:
            raise UserError(
                f"a candidate's graph is of opset {entry.version} of {entry.domain or 'ai.onnx'!r}, and graphs that "
                f"are put together are of {ours}; have its kind export that"
            )
    inner = compose.add_prefix_graph(model.graph, prefix)
    return list(inner.node), {tensor.name: numpy_helper.to_array(tensor) for tensor in inner.initializer}
