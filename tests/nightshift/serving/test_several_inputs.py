"""A graph of two inputs, an image and the length of a text, is packaged, judged, batched and served as one of one."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import httpx
import numpy as np
import pandas as pd
import pytest
from onnx import TensorProto, helper, numpy_helper

from components.optimization import core, forms
from components.optimization.forms import Form
from components.profiling.core import scoring
from nightshift import storage
from nightshift.contracts import package, preprocessing
from nightshift.contracts.optimization import ORIGINAL
from nightshift.contracts.package import Datatype, DecisionRule, Signature, Tensor
from nightshift.contracts.preprocessing import Inputs
from nightshift.items.scorer import scores
from nightshift.models.graph import Graph
from nightshift.models.tensors import Tensors, concatenate, row_count, take_rows
from nightshift.serving.application import Application
from nightshift.serving.batching import Batcher, ServerLimits
from nightshift.serving.files import DeploymentPointer
from nightshift.serving.items.decoder import DecoderPool
from nightshift.serving.items.schema import ItemError, ItemField, ItemSchema
from nightshift.serving.versions import Model, ModelManager, load
from nightshift_testkit import packages
from tests.nightshift.http.echo import answering

SIDE, CLASSES = 2, ["short", "long", "other"]
RANDOM = np.random.default_rng(0)
ROWS: Tensors = {
    "pixels": RANDOM.integers(0, 256, (40, SIDE, SIDE), dtype=np.uint8),
    "length": RANDOM.integers(0, 9, (40, 1)).astype(np.float32),
}
SIGNATURE = Signature.of_scores(
    Tensor.of_rows(Datatype.UINT8, SIDE, SIDE, name="pixels"),
    Tensor.of_rows(Datatype.FP32, 1, name="length"),
    classes=len(CLASSES),
)


def graph() -> bytes:
    """`softmax(pixels / 255 @ a + length @ b)`."""
    weights = {"a": RANDOM.normal(size=(SIDE * SIDE, 3)) / 255, "b": RANDOM.normal(size=(1, 3))}
    nodes = [
        helper.make_node("Cast", ["pixels"], ["numbers"], to=TensorProto.FLOAT),
        helper.make_node("Flatten", ["numbers"], ["flat"]),
        helper.make_node("MatMul", ["flat", "a"], ["seen"]),
        helper.make_node("MatMul", ["length", "b"], ["read"]),
        helper.make_node("Add", ["seen", "read"], ["logits"]),
        helper.make_node("Softmax", ["logits"], [package.OUTPUT], axis=1),
    ]
    inputs = [
        helper.make_tensor_value_info("pixels", TensorProto.UINT8, ["n", SIDE, SIDE]),
        helper.make_tensor_value_info("length", TensorProto.FLOAT, ["n", 1]),
    ]
    output = helper.make_tensor_value_info(package.OUTPUT, TensorProto.FLOAT, ["n", 3])
    constants = [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()]
    body = helper.make_graph(nodes, "pair", inputs, [output], constants)
    model = helper.make_model(body, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return bytes(model.SerializeToString())


GRAPH = graph()
OFFLINE = Graph(GRAPH).score(ROWS)


def image(content: bytes) -> np.ndarray:
    if len(content) != SIDE * SIDE:
        raise ItemError("wrong_size", f"{SIDE * SIDE} pixels")
    return np.frombuffer(content, np.uint8).reshape(SIDE, SIDE)


def as_bytes(value: Any) -> bytes:
    return str(value).encode("latin-1")


def field(name: str, tensor: str, seen: Any) -> ItemField:
    return ItemField(name, 256, (f"{name}/",), {"type": "string"}, as_bytes, str, seen, lambda _: name, tensor)


ITEMS = ItemSchema(
    CLASSES, (field("image", "pixels", image), field("text", "length", lambda text: np.float32([len(text)])))
)


def save(folder: Path, schema: Any) -> str:
    manifest = packages.manifest(
        {"pair": GRAPH}, signature=SIGNATURE, preprocessing=schema, decision=DecisionRule(threshold=None)
    )
    package.save(str(folder), manifest, {"pair": GRAPH}, pd.DataFrame())
    return str(folder)


def open_pair(pointer: DeploymentPointer) -> Model:
    """As the server loads a task that has both fields."""
    manifest = package.load(pointer.uri)
    runs = partial(scores, Graph(package.read_graph(pointer.uri, manifest, "pair")))
    batcher = Batcher(runs, take_rows(ROWS, slice(1)), ServerLimits())
    return Model("pair", pointer, manifest, DecoderPool(ITEMS, 100), batcher)


def pointer(uri: str) -> DeploymentPointer:
    return DeploymentPointer(1, uri, package.load(uri).sha256, "2024-03-10T00:00:00+00:00")


@pytest.fixture(scope="module")
def of_items(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of images with texts."""
    folder = tmp_path_factory.mktemp("pair")
    images = preprocessing.ImagePreprocessing(side=SIDE, channels=1, min_side=1, max_pixels=9, classes=CLASSES)
    target = pointer(save(folder, images))
    with answering(Application(ModelManager(lambda: target, open_pair), ServerLimits())) as url:
        yield url


@pytest.fixture(scope="module")
def of_tensors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of the same graph, asked by tensors only."""
    features = packages.manifest({"pair": GRAPH}, inputs=Inputs(numeric=["a"], categorical={})).preprocessing
    target = pointer(save(tmp_path_factory.mktemp("tensors"), features))
    current = ModelManager(lambda: target, partial(load, "pair", limits=ServerLimits()))
    with answering(Application(current, ServerLimits())) as url:
        yield url


def tensor(name: str, rows: slice = slice(3), /, **changes: Any) -> dict[str, Any]:
    values, datatype = ROWS[name][rows], {"pixels": "UINT8", "length": "FP32"}[name]
    return {"name": name, "datatype": datatype, "shape": [*values.shape], "data": values.ravel().tolist(), **changes}


def infer(url: str, *inputs: dict[str, Any], payload: bytes = b"") -> httpx.Response:
    head = json.dumps({"inputs": inputs}).encode()
    headers = {"inference-header-content-length": str(len(head))} if payload else {}
    return httpx.post(f"{url}/v2/models/pair/infer", content=head + payload, headers=headers)


def scores_of(answer: httpx.Response) -> np.ndarray:
    assert answer.status_code == 200, answer.text
    return np.float32(answer.json()["outputs"][0]["data"]).reshape(-1, 3)


def item(row: int) -> dict[str, str]:
    return {"image": ROWS["pixels"][row].tobytes().decode("latin-1"), "text": "x" * int(ROWS["length"][row, 0])}


def test_requests_that_wait_together_are_one_call_of_both_inputs() -> None:
    sizes: list[int] = []

    def score(inputs: Tensors) -> np.ndarray:
        sizes.append(row_count(inputs))
        return Graph(GRAPH).score(inputs)

    async def ask() -> list[np.ndarray]:
        batcher = Batcher(score, take_rows(ROWS, slice(1)), ServerLimits())
        parts = [take_rows(ROWS, rows) for rows in (slice(0, 1), slice(1, 5), slice(5, 40))]
        return list(await asyncio.gather(*(batcher.score(part) for part in parts)))

    assert np.concatenate(asyncio.run(ask())) == pytest.approx(OFFLINE, abs=1e-6)
    assert sizes[2:] == [40]


def test_one_part_is_joined_without_a_copy_and_rows_are_split_and_joined_by_name() -> None:
    assert concatenate([ROWS]) is ROWS
    parts = [take_rows(ROWS, [3, 1]), take_rows(ROWS, slice(5, 6))]
    assert concatenate(parts)["length"].tolist() == ROWS["length"][[3, 1, 5]].tolist()
    assert scores(Graph(GRAPH), take_rows(ROWS, slice(0))).shape == (0, 3)


@pytest.mark.parametrize("servers", ["of_tensors", "of_items"])
def test_two_tensors_in_any_order_in_json_and_in_bytes_get_the_offline_scores(request, servers) -> None:
    url = request.getfixturevalue(servers)
    pixels, length = ROWS["pixels"][:3].tobytes(), ROWS["length"][:3].tobytes()
    behind = [
        tensor(name, parameters={"binary_data_size": len(values)}) | {"data": []}
        for name, values in (("length", length), ("pixels", pixels))
    ]
    mixed = tensor("pixels", parameters={"binary_data_size": len(pixels)})
    for answer in (
        infer(url, tensor("pixels"), tensor("length")),
        infer(url, tensor("length"), tensor("pixels")),
        infer(url, *behind, payload=length + pixels),
        infer(url, mixed, tensor("length"), payload=pixels),
    ):
        assert scores_of(answer) == pytest.approx(OFFLINE[:3], abs=1e-6)


SIZE = "inputs[1].parameters.binary_data_size"


@pytest.mark.parametrize(
    ("inputs", "field", "allowed"),
    [
        ([tensor("pixels")], "inputs", "'pixels' and 'length'"),
        ([tensor("pixels"), tensor("pixels")], "inputs", "'pixels' and 'length'"),
        ([tensor("pixels"), tensor("length", name="size")], "inputs", "'pixels' and 'length'"),
        ([tensor("pixels"), tensor("length", datatype="FP64")], "inputs[1].datatype", "FP32 for 'length'"),
        ([tensor("pixels"), tensor("length", shape=[3])], "inputs[1].shape", "for 'length'"),
        ([tensor("length"), tensor("pixels", slice(2))], "inputs[0].shape", "rows for 'length' as for 'pixels', 2"),
        ([tensor("pixels"), tensor("length", data=[1.0])], "inputs[1].data", "3, as the shape says"),
        ([tensor("pixels"), tensor("length", parameters={"binary_data_size": 4})], SIZE, "0, the bytes behind"),
        ([tensor("pixels", parameters={"binary_data_size": -1}), tensor("length")],
         "inputs[0].parameters.binary_data_size", "a number up to 0"),
    ],
)  # fmt: skip
def test_a_second_input_that_is_wrong_or_missing_is_refused_by_its_name(of_tensors, inputs, field, allowed) -> None:
    error = infer(of_tensors, *inputs).json()
    assert error["field"] == field
    assert allowed in error["allowed"]


def test_items_of_two_fields_get_the_offline_scores_one_or_more_in_json_and_as_tensors(of_items) -> None:
    instances = [item(row) for row in range(3)]
    one = httpx.post(f"{of_items}/score", json=item(0) | {"id": "a"}).json()
    assert list(one["scores"].values()) == pytest.approx(OFFLINE[0].tolist(), abs=1e-6)
    many = httpx.post(f"{of_items}/score", json={"instances": instances}).json()["predictions"]
    assert [list(prediction["scores"].values()) for prediction in many] == pytest.approx(OFFLINE[:3], abs=1e-6)
    assert [prediction["version"] for prediction in many] == [1] * 3
    columns = [
        {"name": name, "datatype": "BYTES", "shape": [3], "data": [instance[name] for instance in instances]}
        for name in ("text", "image")
    ]
    assert scores_of(infer(of_items, *columns)) == pytest.approx(OFFLINE[:3], abs=1e-6)


@pytest.mark.parametrize(
    ("body", "field", "allowed"),
    [
        ({"image": "1234"}, "body", "an object of 'image', 'text'"),
        ({"instances": [item(0), {"text": ""}]}, "instances[1]", "an object of 'image', 'text'"),
        ({"instances": [item(0), {"text": "", "image": "1"}]}, "instances[1].image", "4 pixels"),
        ({}, "body", '{"image": ..., "text": ...}'),
    ],
)
def test_an_item_without_all_of_its_fields_is_refused_with_their_names(of_items, body, field, allowed) -> None:
    error = httpx.post(f"{of_items}/score", json=body).json()
    assert error["field"] == field
    assert allowed in error["allowed"]


def test_the_server_describes_both_forms_of_a_request(of_items) -> None:
    described = httpx.get(f"{of_items}/v2/models/pair").json()["inputs"]
    assert [described_input["name"] for described_input in described] == ["pixels", "length", "image", "text"]
    page = httpx.get(f"{of_items}/openapi.json").json()["paths"]["/score"]["post"]["requestBody"]["content"]
    assert list(page) == ["application/json"]
    assert page["application/json"]["schema"]["oneOf"][0]["required"] == ["image", "text"]


def test_an_item_is_known_by_all_that_the_graph_sees_of_it() -> None:
    seen = asyncio.run(DecoderPool(ITEMS, 100).hash_inputs(take_rows(ROWS, slice(2))))
    expected = [storage.sha256(ROWS["pixels"][row].tobytes() + ROWS["length"][row].tobytes()) for row in range(2)]
    assert seen.hashes == expected


@dataclass(frozen=True)
class Rows:
    """Labels are what the graph itself decides."""

    metric: ClassVar = "accuracy"
    batch_size: ClassVar = 64
    inputs: Tensors
    limit: float = 0.01
    is_decidable: bool = True

    def compute(self, graph: Graph, inputs: Tensors) -> np.ndarray:
        return graph.score(inputs)

    def decide(self, scores: np.ndarray) -> np.ndarray:
        return scores.argmax(1)

    def quality(self, scores: np.ndarray) -> float:
        return float(np.mean(scores.argmax(1) == OFFLINE.argmax(1)))

    def resample(self, scores: np.ndarray) -> np.ndarray:
        return np.full(100, self.quality(scores))


@pytest.mark.parametrize("name", ["graph", "int8 dynamic", "int8 static"])
def test_forms_of_the_graph_are_made_and_judged_on_all_rows(name) -> None:
    original, form = Form(ORIGINAL, Graph(GRAPH), GRAPH), forms.make_form(name, GRAPH, ROWS)
    tried = core.judge_by_loss(original, form, Rows(ROWS))
    assert form.graph, form.missing
    assert form.graph.score(ROWS) == pytest.approx(OFFLINE, abs=0.05)
    assert tried[1].loss is not None
    times = core.latencies({"original": original.graph.score}, Rows(ROWS))
    assert [latency.rows for latency in times["original"]] == [1, 64]


def test_the_speed_of_a_graph_is_measured_by_rows_and_not_by_inputs() -> None:
    assert scoring(Graph(GRAPH), ROWS, 16).batch == 16
