"""Named graphs are cut from a candidate's one graph, give what the whole gives, and share its weights."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import set_external_data

from nightshift.contracts.package import Datatype, NamedGraph, Signature, Tensor
from nightshift.models.cutting import cut_graph, cut_graphs
from nightshift.models.graph import Graph
from nightshift.models.weights import LargeGraph, WeightFile
from nightshift.runtime.errors import UserError

RANDOM = np.random.default_rng(0)
SHAPES = {"image": (4, 3), "text": (5, 3), "head": (3, 2)}
WEIGHTS = {name: RANDOM.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}
ROWS = {
    "pixels": RANDOM.integers(0, 9, (6, 2, 2), dtype=np.uint8),
    "tokens": RANDOM.integers(0, 9, (6, 5), dtype=np.int32),
}
SIGNATURE = Signature(
    inputs=[
        Tensor.of_rows(Datatype.UINT8, 2, 2, name="pixels"),
        Tensor.of_rows(Datatype.INT32, 5, name="tokens"),
    ],
    outputs=[
        Tensor.of_rows(Datatype.FP32, 2, name="score"),
        Tensor.of_rows(Datatype.FP32, 3, name="image_embedding"),
        Tensor.of_rows(Datatype.FP32, 3, name="text_embedding"),
    ],
    graphs={
        "image": NamedGraph(inputs=["pixels"], outputs=["score", "image_embedding"]),
        "text": NamedGraph(inputs=["tokens"], outputs=["text_embedding"]),
    },
)


def constant(name: str, values: Any) -> Any:
    return numpy_helper.from_array(np.asarray(values), name)


def model() -> Any:
    """Two towers, both divided by a scale, the image's under a branch whose body takes the tower from around it."""
    body = helper.make_graph(
        [helper.make_node("Div", ["seen", "scale"], ["scaled"])],
        "branch",
        [],
        [helper.make_tensor_value_info("scaled", TensorProto.FLOAT, ["n", 3])],
    )
    nodes = [
        helper.make_node("Cast", ["pixels"], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("Flatten", ["numbers"], ["flat"]),
        helper.make_node("MatMul", ["flat", "image"], ["seen"]),
        helper.make_node("If", ["yes"], ["image_embedding"], then_branch=body, else_branch=body),
        helper.make_node("MatMul", ["image_embedding", "head"], ["logits"]),
        helper.make_node("Sigmoid", ["logits"], ["score"]),
        helper.make_node("Cast", ["tokens"], ["words"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["words", "text"], ["read"]),
        helper.make_node("Div", ["read", "scale"], ["text_embedding"]),
        helper.make_node("Concat", ["image_embedding", "text_embedding"], ["embedding"], axis=1),
    ]
    inputs = [
        helper.make_tensor_value_info("pixels", TensorProto.UINT8, ["n", 2, 2]),
        helper.make_tensor_value_info("tokens", TensorProto.INT32, ["n", 5]),
    ]
    outputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", width])
        for name, width in {"score": 2, "image_embedding": 3, "text_embedding": 3, "embedding": 6}.items()
    ]
    constants = [constant(name, values) for name, values in WEIGHTS.items()]
    constants += [constant("scale", np.float32(2)), constant("yes", True)]
    graph = helper.make_graph(nodes, "pair", inputs, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def large() -> LargeGraph:
    """The same graph with its weights in two files."""
    files = [
        WeightFile("a.safetensors", {name: WEIGHTS[name] for name in ("image", "head")}),
        WeightFile("b.safetensors", {"text": WEIGHTS["text"]}),
    ]
    whole = model()
    places = {name: (file, file.offsets[name]) for file in files for name in file.tensors}
    for initializer in whole.graph.initializer:
        if initializer.name in places:
            file, offset = places[initializer.name]
            set_external_data(initializer, file.name, offset, WEIGHTS[initializer.name].nbytes)
            initializer.ClearField("raw_data")
    return LargeGraph(whole.SerializeToString(), files)


WHOLE = bytes(model().SerializeToString())


def names(tensors: Sequence[Any]) -> list[str]:
    return [tensor.name for tensor in tensors]


@pytest.mark.parametrize("content", [WHOLE, large()], ids=["weights within", "weights in files"])
@pytest.mark.parametrize("name", ["image", "text"])
def test_a_named_graph_gives_what_the_whole_graph_gives_without_the_other_input(content, name) -> None:
    part = SIGNATURE.graphs[name]
    values = Graph(cut_graphs(content, SIGNATURE)[name]).run(part.outputs, {key: ROWS[key] for key in part.inputs})
    expected = Graph(WHOLE).run(part.outputs, ROWS)
    assert list(values) == part.outputs
    for output in part.outputs:
        assert np.array_equal(values[output], expected[output]), output


def test_a_named_graph_holds_only_its_own_nodes_and_weights() -> None:
    text = onnx.load_model_from_string(cut_graph(WHOLE, ["tokens"], ["text_embedding"])).graph
    assert names(text.input) == ["tokens"]
    assert names(text.output) == ["text_embedding"]
    assert sorted(names(text.initializer)) == ["scale", "text"]
    assert [node.op_type for node in text.node] == ["Cast", "MatMul", "Div"]


def test_weights_in_files_are_shared_with_the_whole_graph() -> None:
    whole = large()
    part = cut_graph(whole, ["tokens"], ["text_embedding"])
    assert isinstance(part, LargeGraph)
    assert [file.name for file in part.files] == ["b.safetensors"]
    assert part.files[0].tensors["text"] is whole.files[1].tensors["text"]


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        (["pixels"], ["embedding"], "makes 'embedding' of 'tokens' too, not of 'pixels' alone"),
        (["pixels"], ["label"], "outputs of a named graph are 'label'; allowed: 'score', 'image_embedding'"),
        (["image"], ["score"], "inputs of a named graph are 'image'; allowed: 'pixels', 'tokens'"),
        (["pixels"], [], "outputs of a named graph are none"),
    ],
)
def test_a_part_that_the_graph_does_not_have_is_refused(inputs, outputs, message) -> None:
    with pytest.raises(UserError, match=message):
        cut_graph(WHOLE, inputs, outputs)


@pytest.mark.parametrize(
    ("graphs", "message"),
    [
        ({"image": NamedGraph(inputs=["pixels"], outputs=["score", "image_embedding"])}, "their inputs are pixels"),
        (
            SIGNATURE.graphs | {"again": NamedGraph(inputs=["pixels"], outputs=["score"])},
            "each output of one graph",
        ),
        (
            SIGNATURE.graphs | {"other": NamedGraph(inputs=["sound"], outputs=["score"])},
            "allowed: the signature's, pixels, tokens",
        ),
    ],
)
def test_a_signature_names_graphs_of_its_own_tensors_only(graphs, message) -> None:
    with pytest.raises(ValueError, match=message):
        Signature(inputs=SIGNATURE.inputs, outputs=SIGNATURE.outputs, graphs=graphs)


def test_a_signature_of_one_graph_is_written_as_before() -> None:
    assert "graphs" not in Signature.of_scores(Tensor.of_rows(Datatype.FP32, 3)).model_dump(mode="json")
    assert Signature.model_validate_json(SIGNATURE.model_dump_json()) == SIGNATURE
