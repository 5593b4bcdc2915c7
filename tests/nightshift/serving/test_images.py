"""Images in every form in which they may come get the scores that the offline code gives their pixels."""

import base64
import json
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import httpx
import jsonschema
import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest
from PIL import Image

from nightshift import storage
from nightshift.contracts import package
from nightshift.items import images
from nightshift.items.scorer import ClassScorer
from nightshift.serving.batching import ServerLimits
from nightshift.serving.items.loader import load_schema
from nightshift.serving.prediction_log import PredictionLog
from nightshift_testkit.processes import wait_until
from tests.components import pictures
from tests.nightshift.serving.conftest import Running, point, serving

CLASSES = pictures.CONFIG["task"]["classes"]
# a JPEG that is decoded at a smaller scale, gray and in color
FILES = [
    pictures.file("JPEG", size=(48, 36)),
    pictures.file("PNG", "L", (20, 20), seed=1),
    pictures.file("WEBP", size=(31, 23), seed=2, lossless=True),
]


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> str:
    # more than the JPEG has at the smaller scale
    return pictures.model(tmp_path_factory.mktemp("images"), max_pixels=10_000, min_side=20)


@pytest.fixture(scope="module")
def running(uri: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("served")
    with serving(uri, folder / "current.json", ServerLimits(rows=8)) as running:
        yield running


@pytest.fixture(scope="module")
def url(running: Running) -> str:
    return running.url


def pixels(uri: str, *contents: bytes) -> npt.NDArray[np.uint8]:
    """As the features step makes them."""
    task = package.load(uri).classes
    decoded = [images.decode_image(content, task.max_pixels, task.side) for content in contents]
    return np.stack([images.square(picture, task.side, task.channels) for picture in decoded])


def offline(uri: str, *contents: bytes) -> npt.NDArray[np.float32]:
    return ClassScorer(uri, package.load(uri)).score(pixels(uri, *contents))


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def post(url: str, content: bytes, media: str = "image/jpeg", path: str = "/score", **headers: str) -> httpx.Response:
    return httpx.post(f"{url}{path}", content=content, headers={"content-type": media, **headers})


def infer(url: str, tensor: dict[str, Any], values: bytes = b"", model: str = "fraud", **more: Any) -> httpx.Response:
    head = json.dumps({"inputs": [tensor], **more}).encode()
    lengths = {"inference-header-content-length": str(len(head))} if values else {}
    return httpx.post(f"{url}/v2/models/{model}/infer", content=head + values, headers=lengths)


def prefixed(*elements: bytes) -> bytes:
    return b"".join(len(element).to_bytes(4, "little") + element for element in elements)


@pytest.mark.parametrize("content", FILES, ids=["jpeg", "png", "webp"])
def test_a_file_gets_the_offline_scores_as_a_body_and_in_json(url, uri, content) -> None:
    expected = offline(uri, content)[0]
    answers = [
        post(url, content),
        post(url, content, "application/x-image", "/invocations"),
        httpx.post(f"{url}/score", json={"image": encoded(content), "id": "a"}),
        httpx.post(f"{url}/score", json={"image": {"b64": encoded(content)}}),
    ]
    for answer in answers:
        answered = answer.json()
        assert answer.status_code == 200, answered
        assert list(answered["scores"]) == CLASSES
        assert np.array(list(answered["scores"].values()), np.float32).tobytes() == expected.tobytes()
        assert (answered["label"], answered["model_version"]) == (CLASSES[int(expected.argmax())], 1)
        assert np.float32(answered["score"]) == expected.max()


def test_several_images_are_asked_as_vertex_does(url, uri) -> None:
    body = {"instances": [{"image": {"b64": encoded(content)}} for content in FILES]}
    content = httpx.post(f"{url}/score", json=body).json()
    assert (content["model"], content["version"]) == ("fraud", 1)
    scores = [list(prediction["scores"].values()) for prediction in content["predictions"]]
    np.testing.assert_allclose(scores, offline(uri, *FILES), atol=1e-6)


def test_tensors_of_files_and_of_pixels_get_the_same_scores_in_json_and_in_bytes(url, uri) -> None:
    expected, tensor = offline(uri, *FILES), pixels(uri, *FILES)
    files = {"name": "image", "datatype": "BYTES", "shape": [3]}
    seen = {"name": "inputs", "datatype": "UINT8", "shape": list(tensor.shape)}
    raw, behind = prefixed(*FILES), tensor.tobytes()
    answers = [
        infer(url, files | {"data": [encoded(content) for content in FILES]}),
        infer(url, files | {"shape": [3, 1], "data": [[encoded(content)] for content in FILES]}),
        infer(url, files | {"parameters": {"binary_data_size": len(raw)}}, raw),
        infer(url, seen | {"data": tensor.tolist()}),
        infer(url, seen | {"parameters": {"binary_data_size": len(behind)}}, behind),
    ]
    for answer in answers:
        assert answer.status_code == 200, answer.text
        score, label = answer.json()["outputs"]
        assert (score["name"], score["datatype"], score["shape"]) == ("score", "FP32", [3, 4])
        np.testing.assert_allclose(np.reshape(score["data"], (3, 4)), expected, atol=1e-6)
        assert (label["name"], label["datatype"], label["shape"]) == ("label", "BYTES", [3])
        assert label["data"] == [CLASSES[number] for number in expected.argmax(axis=1)]


def test_outputs_come_as_they_are_asked_for(url, uri) -> None:
    tensor = {"name": "image", "datatype": "BYTES", "shape": [1], "data": [encoded(FILES[0])]}
    (only,) = infer(url, tensor, outputs=[{"name": "label"}]).json()["outputs"]
    assert only["name"] == "label"
    answer = infer(url, tensor, parameters={"binary_data_output": True})
    length = int(answer.headers["inference-header-content-length"])
    sizes = [output["parameters"]["binary_data_size"] for output in json.loads(answer.content[:length])["outputs"]]
    score, label = answer.content[length : length + sizes[0]], answer.content[length + sizes[0] :]
    assert np.frombuffer(score, "<f4").tobytes() == offline(uri, FILES[0]).tobytes()
    assert label == prefixed(only["data"][0].encode())
    assert infer(url, tensor, outputs=[{"name": "embedding"}]).json()["allowed"] == "'score' or 'label'"


@pytest.mark.parametrize(
    ("content", "rule", "allowed"),
    [
        (b"", "empty", "an image file"),
        (b"no image", "undecodable", "a whole file of the formats BMP, GIF, JPEG, PNG, WEBP"),
        (FILES[0][:200], "undecodable", "a whole file"),
        (pictures.file(size=(101, 100)), "decompression_bomb", "up to 10,000 pixels"),
        (pictures.file("JPEG", "CMYK", (20, 20)), "wrong_mode", "gray or RGB, 8 bits a channel"),
        (pictures.file(size=(40, 19)), "too_small", "at least 20 pixels a side"),
    ],
    ids=["empty", "text", "half", "large", "print", "small"],
)
def test_an_image_that_training_would_not_take_is_refused_with_the_rule(url, content, rule, allowed) -> None:
    tensor = {"name": "image", "datatype": "BYTES", "shape": [2], "data": [encoded(FILES[0]), encoded(content)]}
    body = {"instances": [{"image": encoded(FILES[0])}, {"image": encoded(content)}]}
    answers = {
        "body": post(url, content),
        "image": httpx.post(f"{url}/score", json={"image": encoded(content)}),
        "instances[1].image": httpx.post(f"{url}/score", json=body),
        "inputs[0].data[1]": infer(url, tensor),
    }
    for field, answer in answers.items():
        error = answer.json()
        assert (answer.status_code, error["field"], error["value"]) == (400, field, rule)
        assert allowed in error["error"]


def test_an_animation_is_refused(url) -> None:
    buffer, frames = BytesIO(), [Image.new("L", (16, 16), shade) for shade in (0, 200)]
    frames[0].save(buffer, "GIF", save_all=True, append_images=frames[1:])
    assert post(url, buffer.getvalue(), "image/gif").json()["value"] == "animated"


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"image": "no base64!"}, "image"),
        ({"image": 7}, "image"),
        ({"image": "", "color": "red"}, "body"),
        ({"image": "", "id": 7}, "body.id"),
        ({"events": []}, "body"),
        ({"instances": []}, "instances"),
        ({"instances": [{"image": ""}] * 9}, "instances"),
        ({"instances": [{}]}, "instances[0]"),
        ("no JSON", "body"),
    ],
)
def test_a_wrong_request_is_told_the_field(url, body, field) -> None:
    answer = (
        httpx.post(f"{url}/score", json=body) if isinstance(body, dict) else post(url, b"no JSON", "application/json")
    )
    assert (answer.status_code, answer.json()["field"]) == (400, field)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": "picture"}, "inputs"),
        ({"datatype": "UINT8"}, "inputs[0].datatype"),
        ({"shape": [1, 2]}, "inputs[0].shape"),
        ({"shape": [2]}, "inputs[0].data"),
        ({"shape": []}, "inputs[0].shape"),
        ({"data": [7]}, "inputs[0].data"),
        ({"data": "text"}, "inputs[0].data"),
        ({"name": "inputs", "datatype": "UINT8", "shape": [1, 16, 16, 1], "data": [256] * 256}, "inputs[0].data"),
        ({"name": "inputs", "datatype": "UINT8", "shape": [1, 16, 16, 1], "data": [[1], [2, 3]]}, "inputs[0].data"),
        ({"name": "inputs", "datatype": "UINT8", "shape": [1, 16, 16, 1], "data": [0.5] * 256}, "inputs[0].data"),
        ({"name": "inputs", "datatype": "UINT8", "shape": [1, 16, 16, 1], "data": [-1] * 256}, "inputs[0].data"),
        ({"name": "inputs", "datatype": "UINT8", "shape": [1, 16, 16, 1], "data": []}, "inputs[0].data"),
        ({"name": "inputs", "datatype": "UINT8", "shape": [1, 16, 16], "data": [0] * 256}, "inputs[0].shape"),
    ],
)
def test_a_wrong_tensor_is_told_the_field(url, change, field) -> None:
    answer = infer(url, {"name": "image", "datatype": "BYTES", "shape": [1], "data": [encoded(FILES[0])]} | change)
    assert (answer.status_code, answer.json()["field"]) == (400, field)


@pytest.mark.parametrize("values", [b"\x09\0", b"\0\0", b"\x09\0\0\0short"])
def test_bytes_that_are_cut_short_are_refused(url, values) -> None:
    tensor = {"name": "image", "datatype": "BYTES", "shape": [1], "parameters": {"binary_data_size": len(values)}}
    assert infer(url, tensor, values).json()["value"] == "cut short"


def test_metadata_and_configuration_name_what_is_taken_and_given(url) -> None:
    model = httpx.get(f"{url}/v2/models/fraud").json()
    assert {tensor["name"]: (tensor["datatype"], tensor["shape"]) for tensor in model["inputs"] + model["outputs"]} == {
        "inputs": ("UINT8", [-1, 16, 16, 1]),
        "image": ("BYTES", [-1]),
        "score": ("FP32", [-1, 4]),
        "label": ("BYTES", [-1]),
    }
    config = httpx.get(f"{url}/v2/models/fraud/config").json()
    assert config["input"] == [
        {"name": "inputs", "data_type": "TYPE_UINT8", "dims": [16, 16, 1], "optional": True},
        {"name": "image", "data_type": "TYPE_STRING", "dims": [1], "reshape": {"shape": []}, "optional": True},
    ]
    assert [output["dims"] for output in config["output"]] == [[4], [1]]
    about = httpx.get(f"{url}/model").json()
    assert (about["inputs"]["classes"], about["inputs"]["side"], about["threshold"]) == (CLASSES, 16, None)


def test_a_model_of_images_has_no_reasons_and_says_so(url) -> None:
    answer = post(url, FILES[0], path="/score?reasons=3")

    assert answer.status_code == 400
    has_none = "scores of task image-classification have no reasons; leave reasons out"
    assert answer.json()["error"] == f"reasons: version 1 has none: {has_none}"


def test_the_openapi_page_allows_what_is_answered_and_describes_it(url) -> None:
    route = httpx.get(f"{url}/openapi.json").json()["paths"]["/score"]["post"]
    schema = jsonschema.Draft202012Validator(route["requestBody"]["content"]["application/json"]["schema"])
    answered = jsonschema.Draft202012Validator(route["responses"]["200"]["content"]["application/json"]["schema"])
    item = {"image": encoded(FILES[0])}
    for body in (item, item | {"id": "a"}, {"image": {"b64": item["image"]}}, {"instances": [item, item]}):
        assert schema.is_valid(body)
        assert answered.is_valid(httpx.post(f"{url}/score", json=body).json())
    assert answered.is_valid(post(url, FILES[0]).json())
    for body in ({}, {"image": 7}, item | {"id": 7}, {"instances": []}, {"image": {"b64": 7}}):
        assert not schema.is_valid(body)
        assert httpx.post(f"{url}/score", json=body).status_code == 400
    assert "image/*" in route["requestBody"]["content"]


def test_what_is_too_large_is_refused_before_anything_is_decoded(uri, tmp_path) -> None:
    with serving(uri, tmp_path / "current.json", ServerLimits(body=1000, queue=1)) as running:
        assert post(running.url, FILES[0]).status_code == 413
        body = {"instances": [{"image": encoded(FILES[1][:9])}] * 2}
        answer = httpx.post(f"{running.url}/score", json=body)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


def test_the_log_has_ids_labels_scores_and_hashes_and_metrics_count_scores(uri, tmp_path) -> None:
    log = PredictionLog(str(tmp_path / "log"))
    with serving(uri, tmp_path / "current.json", predictions=log) as running:
        httpx.post(f"{running.url}/score", json={"image": encoded(FILES[0]), "id": "a"})
        post(running.url, FILES[1])
        tensor = pixels(uri, FILES[2])
        spec = {"name": "inputs", "datatype": "UINT8", "shape": list(tensor.shape), "data": tensor.tolist()}
        infer(running.url, spec)
        page = httpx.get(f"{running.url}/metrics").text
        log.close()
    logged = pd.concat(pd.read_parquet(path) for path in sorted((tmp_path / "log").glob("date=*/*.parquet")))
    expected = offline(uri, *FILES)
    assert logged.item_id.fillna("none").tolist() == ["a", "none", "none"]
    assert logged.label.tolist() == [CLASSES[number] for number in expected.argmax(axis=1)]
    np.testing.assert_allclose(logged.score, expected.max(axis=1), atol=1e-6)
    assert logged.content.tolist() == [storage.sha256(picture.tobytes()) for picture in pixels(uri, *FILES)]
    assert set(logged) == {"scored_at", "request_id", "version", "score", "item_id", "label", "content"}
    assert 'nightshift_endpoint_score_count{use_case="fraud"} 3.0' in page
    assert 'nightshift_endpoint_flagged_rows_total{use_case="fraud"} 0.0' in page


def test_another_version_takes_over_and_may_be_asked_for(uri, tmp_path) -> None:
    other = pictures.model(tmp_path / "other", seed=1)
    with serving(uri, tmp_path / "current.json") as running:
        point(running.pointer, 2, other)
        running.current.refresh()
        wait_until(lambda: running.current.health()["version"] == 2, "the next version answers")
        content = post(running.url, FILES[0], **{"x-model-version": "2"}).json()
        gone = post(running.url, FILES[0], **{"x-model-version": "1"})
    assert content["model_version"] == 2
    assert list(content["scores"].values()) == pytest.approx(offline(other, FILES[0])[0].tolist(), abs=1e-6)
    assert gone.status_code == 404


def test_an_image_that_is_shown_in_json_is_read_back(uri) -> None:
    (field,) = load_schema(package.load(uri), uri).fields
    assert field.parse(field.format(FILES[0])) == FILES[0]
