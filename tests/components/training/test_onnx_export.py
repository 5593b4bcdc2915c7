"""Graphs against plain NumPy."""

from dataclasses import replace

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightshift.models.graph import Graph
from nightshift.tabular.scaler import Scaler
from nightshift.tasks import onnx_export
from nightshift.tasks.onnx_export import Tree
from nightshift.tasks.tabular.estimators import rounded_down

# x0 ? 1.5 -> 0.25, otherwise x1 ? -2 -> 0.5, otherwise 0.75
TREE = Tree(
    left=np.array([1, -1, 3, -1, -1]),
    right=np.array([2, -1, 4, -1, -1]),
    feature=np.array([0, -2, 1, -2, -2]),
    threshold=np.array([1.5, 0, -2, 0, 0], dtype=np.float32),
    value=np.array([0, 0.25, 0, 0.5, 0.75], dtype=np.float32),
)
STUMP = Tree(np.array([-1]), np.array([-1]), np.array([-2]), np.zeros(1, np.float32), np.array([8.0], np.float32))


def floats(rows: list[list[float]]) -> np.ndarray:
    return np.array(rows, dtype=np.float32)


@pytest.mark.parametrize(
    ("comparison", "expected"), [("BRANCH_LT", [0.25, 0.75, 0.5]), ("BRANCH_LEQ", [0.25, 0.25, 0.5])]
)
def test_a_value_equal_to_the_threshold_goes_where_the_comparison_says(comparison, expected):
    graph = onnx_export.forest([TREE], 2, comparison, base=0.0, link="Identity")

    assert Graph(graph).score(floats([[1, 0], [1.5, 0], [2, -3]])).tolist() == expected


@pytest.mark.parametrize("left", [True, False])
def test_a_missing_value_goes_where_its_node_says(left):
    nodes = np.array([left, 0, not left, 0, 0])
    graph = onnx_export.forest([replace(TREE, missing_left=nodes)], 2, "BRANCH_LT", base=0.0, link="Identity")

    scores = Graph(graph).score(floats([[np.nan, 0], [2, np.nan], [1, 0], [2, -3]])).tolist()

    assert scores == [0.25 if left else 0.75, 0.75 if left else 0.5, 0.25, 0.5]


def test_trees_are_summed_on_top_of_the_base():
    graph = onnx_export.forest([TREE, STUMP, TREE], 2, "BRANCH_LT", base=100.0, link="Identity")

    assert Graph(graph).score(floats([[1, 0]])).tolist() == [108.5]


def test_a_sum_of_logits_becomes_a_probability():
    graph = onnx_export.forest([STUMP], 2, "BRANCH_LT", base=-8.0, link="Sigmoid")

    assert Graph(graph).score(floats([[0, 0]])).tolist() == [0.5]


def test_layers_are_applied_in_turn_to_standardized_inputs_with_relu_between_them():
    rng = np.random.default_rng(0)
    layers = [(rng.normal(size=(4, 3)), rng.normal(size=4)), (rng.normal(size=(1, 4)), rng.normal(size=1))]
    layers = [(weights.astype(np.float32), bias.astype(np.float32)) for weights, bias in layers]
    scaler = Scaler(floats([[1, 2, 3]])[0], floats([[2, 4, 8]])[0])
    rows = rng.normal(size=(50, 3)).astype(np.float32)

    hidden = np.maximum((rows - scaler.mean) / scaler.scale @ layers[0][0].T + layers[0][1], 0)
    expected = 1 / (1 + np.exp(-(hidden @ layers[1][0].T + layers[1][1])))[:, 0]

    assert (hidden == 0).any()
    assert np.allclose(Graph(onnx_export.dense(scaler, layers)).score(rows), expected, atol=1e-6)


def test_a_graph_names_no_producer_no_path_and_no_time():
    graph = onnx.load_from_string(onnx_export.forest([TREE], 2, "BRANCH_LT", 0.0, link="Identity"))

    assert (graph.producer_name, graph.producer_version, graph.doc_string) == ("", "", "")
    assert not graph.metadata_props


@given(st.floats(-(2.0**100), 2.0**100), st.floats(-(2.0**100), 2.0**100, width=32))
def test_a_threshold_rounded_to_float32_splits_float32_values_as_before(threshold, value):
    (rounded,) = rounded_down(np.array([threshold]))

    assert rounded.dtype == np.float32
    assert (np.float32(value) <= rounded) == (value <= threshold)


@given(st.floats(-(2.0**100), 2.0**100, width=32))
def test_a_threshold_that_is_a_float32_stays_as_it_is(threshold):
    assert rounded_down(np.array([threshold])) == np.float32(threshold)
