"""Cuts named graphs out of a candidate's graph: the nodes and weights that lead from some inputs to some outputs.

ONNX Runtime runs a graph whole and wants all of its inputs, even when only some of its outputs are asked for.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from nightshift.contracts.package import Signature
from nightshift.models.weights import LargeGraph, WeightFile
from nightshift.runtime.errors import UserError


def cut_graphs(content: bytes, signature: Signature) -> dict[str, bytes]:
    """Return the named graphs of a signature, cut from a candidate's graph; raises as `cut_graph`."""
    return {name: cut_graph(content, graph.inputs, graph.outputs) for name, graph in signature.graphs.items()}


def cut_graph(content: bytes, inputs: Sequence[str], outputs: Sequence[str]) -> bytes:
    """Return the part of an ONNX graph that makes some outputs of some inputs; weights in files are not copied.

    Args:
        content: the graph.
        inputs: names of its inputs that the part takes.
        outputs: names of its outputs that the part gives, in this order.

    Raises:
        UserError: when the graph has no such input or output, or makes an output of another input too.
    """
    import onnx  # which takes long, and only packages of several graphs need it

    model = onnx.load_model_from_string(bytes(content))
    graph = model.graph
    _check_names("outputs", outputs, (output.name for output in graph.output))
    _check_names("inputs", inputs, (tensor.name for tensor in graph.input))
    nodes, tensors = _trace_back(graph.node, outputs)
    constants = {constant.name for constant in graph.initializer}
    if missing := sorted({tensor.name for tensor in graph.input} & tensors - constants - set(inputs)):
        raise UserError(
            f"the graph makes {_quote(outputs)} of {_quote(missing)} too, not of {_quote(inputs)} alone; name all "
            "of its inputs in the signature's graphs, or train a candidate whose outputs do without"
        )
    ordered = {output.name: output for output in graph.output}
    _replace(graph.node, nodes)
    _replace(graph.input, [tensor for tensor in graph.input if tensor.name in {*inputs, *(constants & tensors)}])
    _replace(graph.output, [ordered[name] for name in outputs])
    _replace(graph.initializer, [constant for constant in graph.initializer if constant.name in tensors])
    _replace(graph.sparse_initializer, [c for c in graph.sparse_initializer if c.values.name in tensors])
    _replace(graph.value_info, [info for info in graph.value_info if info.name in tensors])
    _replace(graph.quantization_annotation, [a for a in graph.quantization_annotation if a.tensor_name in tensors])
    part = bytes(model.SerializeToString())
    return LargeGraph(part, _select_weights(content.files, tensors)) if isinstance(content, LargeGraph) else part


def _trace_back(nodes: Sequence[Any], outputs: Iterable[str]) -> tuple[list[Any], set[str]]:
    """Return the nodes that lead to some outputs, in their order, and the names of all tensors on the way."""
    tensors, kept = set(outputs), []
    for node in reversed(nodes):  # ONNX demands that nodes follow those whose outputs they take
        if tensors.intersection(node.output):
            kept.append(node)
            tensors.update(filter(None, [*_list_inputs(node), *node.output]))
    return kept[::-1], tensors


def _list_inputs(node: Any) -> list[str]:
    """Return what a node takes; the bodies of loops and branches take tensors of the graph around them too."""
    bodies = [body for attribute in node.attribute for body in (*attribute.graphs, attribute.g)]
    return [*node.input, *(name for body in bodies for inner in body.node for name in _list_inputs(inner))] + [
        output.name for body in bodies for output in body.output
    ]


def _check_names(field: str, names: Sequence[str], known: Iterable[str]) -> None:
    allowed = list(known)
    if not names or not set(names) <= set(allowed):
        raise UserError(f"{field} of a named graph are {_quote(names)}; allowed: {_quote(allowed)}")


def _replace(field: Any, values: Sequence[Any]) -> None:
    kept = [type(value).FromString(value.SerializeToString()) for value in values]
    del field[:]
    field.extend(kept)


def _select_weights(files: Sequence[WeightFile], names: set[str]) -> list[WeightFile]:
    """Return the weights that a part uses, where they are in memory."""
    parts = [
        WeightFile(file.name, {name: tensor for name, tensor in file.tensors.items() if name in names})
        for file in files
    ]
    return [part for part in parts if part.tensors]


def _quote(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "none"
