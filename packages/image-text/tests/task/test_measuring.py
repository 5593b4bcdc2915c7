"""What a graph says of pairs, and the metrics by which a candidate is chosen."""

import numpy as np
import pytest
from onnx import TensorProto, helper

from nightshift.models.graph import Graph
from nightshift_image_text.retrieval import Embeddings, Pairs
from nightshift_image_text.task.measuring import answer, measure_pairs
from nightshift_image_text.task.metrics import METRICS

LABELS = np.random.default_rng(0).random((60, 3)) < 0.4
AXES = np.eye(60, dtype=np.float32)
PAIRS = Pairs(np.arange(60), np.arange(60), np.arange(60))


def build_graph() -> bytes:
    """A graph whose outputs are its inputs as numbers: pixels are scores and images, tokens are texts."""
    nodes = [
        helper.make_node("Cast", ["pixels"], ["score"], to=TensorProto.FLOAT),
        helper.make_node("Identity", ["score"], ["image_embedding"]),
        helper.make_node("Cast", ["tokens"], ["text_embedding"], to=TensorProto.FLOAT),
    ]
    inputs = [
        helper.make_tensor_value_info("pixels", TensorProto.UINT8, ["n", 2]),
        helper.make_tensor_value_info("tokens", TensorProto.INT32, ["n", 3]),
    ]
    names = ("score", "image_embedding", "text_embedding")
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names]
    graph = helper.make_graph(nodes, "pairs", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    content: bytes = model.SerializeToString()
    return content


@pytest.mark.parametrize("count", [0, 1, 300])
def test_a_graph_says_scores_and_both_embeddings_of_any_number_of_rows(count):
    inputs = {"pixels": np.ones((count, 2), np.uint8), "tokens": np.full((count, 3), 7, np.int32)}
    answers = answer(Graph(build_graph()), inputs)
    assert np.array_equal(answers.scores, np.ones((count, 2)))
    assert answers.embeddings.images.shape == (count, 2)
    assert np.array_equal(answers.embeddings.reports, np.full((count, 3), 7))


def test_pairs_have_every_metric_that_their_task_declares():
    measured = measure_pairs(LABELS, LABELS.astype(np.float32), Embeddings(AXES, AXES), PAIRS, [0.5] * 3)
    declared = {metric.name for metric in METRICS} - {"top_5_accuracy"}  # of rows that have one class each
    assert measured.keys() == declared
    assert (measured["recall_at_1"], measured["auc_roc"], measured["accuracy"]) == (1, 1, 1)


def test_recall_is_the_mean_of_both_directions():
    half = np.where(np.arange(60)[:, None] < 30, AXES, 0)  # half of the reports have no embedding
    measured = measure_pairs(LABELS, LABELS.astype(np.float32), Embeddings(AXES, half), PAIRS, [0.5] * 3)
    assert measured["recall_at_5"] == pytest.approx(0.5 + 0.5 * 5 / 60)
