"""The forms of real graphs."""

import numpy as np
import onnx
import pytest

from components.optimization import forms
from nightshift.contracts import package
from nightshift.models.graph import Graph, runtime
from nightshift.models.recipes.resnet import ResNet, ResNetParameters
from nightshift.models.tensors import by_name
from nightshift.tasks import onnx_export
from nightshift_testkit.fixtures import graph

WIDTH = 16
MAKERS = ("graph", "int8 dynamic", "int8 static")
ROWS = np.random.default_rng(0).normal(size=(200, WIDTH)).astype(np.float32)


def perceptron(rows: int | str = "n") -> bytes:
    make, random = onnx.helper, np.random.default_rng(1)

    def weights(name: str, *shape: int):
        return onnx.numpy_helper.from_array(random.normal(0, 0.2, shape).astype(np.float32), name)

    nodes = [
        make.make_node("Gemm", [package.INPUT, "w1", "b1"], ["hidden"]),
        make.make_node("Relu", ["hidden"], ["active"]),
        make.make_node("Gemm", ["active", "w2", "b2"], ["logit"]),
        make.make_node("Sigmoid", ["logit"], ["column"]),
        make.make_node("Reshape", ["column", "flat"], [package.OUTPUT]),
    ]
    body = make.make_graph(
        nodes,
        "perceptron",
        [make.make_tensor_value_info(package.INPUT, onnx.TensorProto.FLOAT, [rows, WIDTH])],
        [make.make_tensor_value_info(package.OUTPUT, onnx.TensorProto.FLOAT, [rows])],
        [weights("w1", WIDTH, 32), weights("b1", 32), weights("w2", 32, 1), weights("b2", 1),
         onnx.numpy_helper.from_array(np.array([-1]), "flat")],
    )  # fmt: skip
    return make.make_model(body, opset_imports=[make.make_opsetid("", 17)], ir_version=9).SerializeToString()


@pytest.fixture(scope="module")
def by_form() -> dict[str, forms.Form]:
    return {form.name: form for form in forms.make_forms(perceptron(), by_name(ROWS))}


@pytest.mark.parametrize(("name", "tolerance"), list(zip(MAKERS, (1e-6, 0.05, 0.05), strict=True)))
def test_a_form_takes_the_same_inputs_and_scores_nearly_the_same(by_form, name: str, tolerance: float) -> None:
    form, expected = by_form[name], Graph(perceptron()).score(ROWS)
    assert form.graph.score(ROWS) == pytest.approx(expected, abs=tolerance)
    assert form.graph.score(ROWS[:1]).shape == (1,)
    assert Graph(form.content).score(ROWS) == pytest.approx(form.graph.score(ROWS))
    assert form.content != perceptron()


def test_scales_are_chosen_from_a_few_rows_at_a_time() -> None:
    """All that a network computes of them is in memory at once."""
    sample = np.resize(ROWS, (3 * forms.CALIBRATION_BATCH, WIDTH))
    assert b"DequantizeLinear" in forms.int8_static(perceptron(rows=forms.CALIBRATION_BATCH), by_name(sample))


def test_activations_of_static_int8_are_unsigned(by_form) -> None:
    """Convolutions of signed ones are no faster than float32."""
    static = onnx.load_from_string(by_form["int8 static"].content).graph
    types = {constant.name: constant.data_type for constant in static.initializer}
    zeros = [types[node.input[2]] for node in static.node if node.op_type == "QuantizeLinear"]
    assert set(zeros) == {onnx.TensorProto.UINT8}


def test_weights_of_static_int8_have_a_scale_for_each_output(by_form) -> None:
    static = onnx.load_from_string(by_form["int8 static"].content).graph
    sizes = {constant.name: list(constant.dims) for constant in static.initializer}
    assert [32] in [sizes[node.input[1]] for node in static.node if node.op_type == "DequantizeLinear"]


def test_static_int8_holds_each_gray_of_an_image_exactly() -> None:
    recipe = ResNet("parameters", 16, 1, 3, ResNetParameters(stages="1", width=4))
    grays = np.arange(256, dtype=np.uint8).reshape(1, 16, 16, 1)
    content = forms.int8_static(onnx_export.images(recipe.model().eval(), recipe), by_name(grays))
    graph = onnx.load_from_string(content).graph
    first = next(node for node in graph.node if node.op_type == "QuantizeLinear")
    values = {constant.name: onnx.numpy_helper.to_array(constant) for constant in graph.initializer}
    scale, zero = (values[name].astype(np.float64) for name in first.input[1:])

    centered = (grays - recipe.shape.scale[0] * recipe.shape.shift[0]) / recipe.shape.scale[0]
    assert np.abs(np.round(centered / scale) + zero - grays).max() == 0
    assert np.abs(centered / scale + zero - grays).max() < 1e-3


def test_int8_makes_the_weights_smaller(by_form) -> None:
    assert b"MatMulInteger" in by_form["int8 dynamic"].content
    assert b"DequantizeLinear" in by_form["int8 static"].content
    assert len(by_form["int8 dynamic"].content) < len(perceptron())


def test_a_graph_that_int8_cannot_change_is_left_out_with_the_reason() -> None:
    make = onnx.helper
    nodes = [make.make_node("ReduceSum", [package.INPUT, "one"], [package.OUTPUT], keepdims=0)]
    body = make.make_graph(
        nodes,
        "sum",
        [make.make_tensor_value_info(package.INPUT, onnx.TensorProto.FLOAT, ["n", WIDTH])],
        [make.make_tensor_value_info(package.OUTPUT, onnx.TensorProto.FLOAT, ["n"])],
        [onnx.numpy_helper.from_array(np.array([1]), "one")],
    )
    content = make.make_model(body, opset_imports=[make.make_opsetid("", 17)], ir_version=9).SerializeToString()
    left_out = {form.name: form for form in forms.make_forms(content, by_name(ROWS))}
    for name in ("int8 dynamic", "int8 static"):
        assert left_out[name].graph is None
        assert left_out[name].missing == "It could not be made: it has no operation that INT8 could replace"


@pytest.mark.parametrize("name", forms.ACCELERATED)
def test_what_needs_a_gpu_is_left_out_with_the_reason_where_there_is_none(by_form, name: str) -> None:
    provider = forms.ACCELERATED[name]
    assert by_form[name].provider == provider
    if provider not in runtime().get_available_providers():
        assert by_form[name].missing == f"ONNX Runtime has no {provider} here."


def test_a_spoiled_graph_has_no_form_and_stops_nothing() -> None:
    spoiled = list(forms.make_forms(graph(0.1)[:20], by_name(ROWS[:, :4])))
    assert [form.graph for form in spoiled] == [None] * len(spoiled)
    assert all(form.missing for form in spoiled)
