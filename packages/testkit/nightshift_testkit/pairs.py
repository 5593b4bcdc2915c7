"""A graph of two towers, of an image and of its report, for tests that need one: random weights, named graphs."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from nightshift.contracts.package import Datatype, NamedGraph, Signature, Tensor

GRAPHS = {
    "image": NamedGraph(inputs=["pixels"], outputs=["score", "image_embedding"]),
    "text": NamedGraph(inputs=["tokens"], outputs=["text_embedding"]),
}


@dataclass(frozen=True)
class PairShape:
    """Sizes of a graph.

    Attributes:
        side: pixels of a gray image.
        length: tokens of a report.
        vocabulary: numbers of tokens.
        width: of an embedding.
        findings: scores of an image.
        hidden: width of both towers.
    """

    side: int = 8
    length: int = 6
    vocabulary: int = 50
    width: int = 4
    findings: int = 2
    hidden: int = 16

    @property
    def signature(self) -> Signature:
        """What the graph takes and gives."""
        return Signature(
            inputs=[
                Tensor.of_rows(Datatype.UINT8, self.side, self.side, 1, name="pixels"),
                Tensor.of_rows(Datatype.INT32, self.length, name="tokens"),
            ],
            outputs=[
                Tensor.of_rows(Datatype.FP32, self.findings, name="score"),
                Tensor.of_rows(Datatype.FP32, -1, name="image_embedding"),
                Tensor.of_rows(Datatype.FP32, -1, name="text_embedding"),
            ],
            graphs=GRAPHS,
        )


def build_pair_graph(shape: PairShape, seed: int = 0) -> bytes:
    """Return an ONNX graph `pixels`, `tokens` -> `score`, unit `image_embedding` and `text_embedding`, `embedding`."""
    nodes = [
        helper.make_node("Cast", ["pixels"], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("Flatten", ["numbers"], ["flat"]),
        helper.make_node("Div", ["flat", "white"], ["light"]),
        helper.make_node("MatMul", ["light", "pixels_in"], ["seen"]),
        helper.make_node("Gather", ["words", "tokens"], ["spelled"]),
        helper.make_node("ReduceMean", ["spelled"], ["read"], axes=[1], keepdims=0),
        *_embed("seen", "image"),
        *_embed("read", "text"),
        helper.make_node("MatMul", ["image_embedding", "head"], ["logits"]),
        helper.make_node("Sigmoid", ["logits"], ["score"]),
        helper.make_node("Concat", ["image_embedding", "text_embedding"], ["embedding"], axis=1),
    ]
    widths = {
        "score": shape.findings,
        "image_embedding": shape.width,
        "text_embedding": shape.width,
        "embedding": 2 * shape.width,
    }
    graph = helper.make_graph(
        nodes,
        "pair",
        [
            helper.make_tensor_value_info("pixels", TensorProto.UINT8, ["n", shape.side, shape.side, 1]),
            helper.make_tensor_value_info("tokens", TensorProto.INT32, ["n", shape.length]),
        ],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", width]) for name, width in widths.items()],
        [numpy_helper.from_array(np.asarray(values), name) for name, values in _draw_weights(shape, seed).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(model.SerializeToString())


def _embed(source: str, tower: str) -> list[Any]:
    return [
        helper.make_node("Tanh", [source], [f"{tower}_hidden"]),
        helper.make_node("MatMul", [f"{tower}_hidden", f"{tower}_out"], [f"{tower}_wide"]),
        helper.make_node("LpNormalization", [f"{tower}_wide"], [f"{tower}_embedding"], axis=1, p=2),
    ]


def _draw_weights(shape: PairShape, seed: int) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    sizes = {
        "pixels_in": (shape.side**2, shape.hidden),
        "words": (shape.vocabulary, shape.hidden),
        "image_out": (shape.hidden, shape.width),
        "text_out": (shape.hidden, shape.width),
        "head": (shape.width, shape.findings),
    }
    weights = {name: random.normal(size=size).astype(np.float32) for name, size in sizes.items()}
    return {**weights, "white": np.float32(255)}
