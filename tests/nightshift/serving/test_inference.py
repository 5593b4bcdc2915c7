"""The Open Inference Protocol, asked over HTTP as its clients do."""

import json

import httpx
import numpy as np
import pytest

from nightshift.serving.batching import ServerLimits

ROWS = np.array([[1.5, 2.0, 0.0, 1.0], [-100.0, 0.0, 1.0, 0.0], [0.1, 3.0, 0.0, 0.0]], np.float32)
INPUT = {"name": "inputs", "shape": [3, 4], "datatype": "FP32"}
LENGTH = "inference-header-content-length"


def expected(weight: float = 0.1) -> list[float]:
    return (1 / (1 + np.exp(-(ROWS @ np.array([weight, 0.1, 0.2, 0.3]))))).tolist()


def binary(request: dict, values: bytes) -> tuple[bytes, dict[str, str]]:
    head = json.dumps(request).encode()
    return head + values, {LENGTH: str(len(head))}


def test_a_tensor_is_scored_from_flat_and_nested_lists_and_from_bytes(url) -> None:
    sized = INPUT | {"parameters": {"binary_data_size": ROWS.nbytes}}
    body, headers = binary({"inputs": [sized]}, ROWS.tobytes())
    answers = [
        httpx.post(
            f"{url}/v2/models/fraud/infer", json={"id": "7", "inputs": [INPUT | {"data": ROWS.reshape(-1).tolist()}]}
        ),
        httpx.post(
            f"{url}/v2/models/fraud/infer",
            json={"inputs": [INPUT | {"data": ROWS.tolist()}], "parameters": {"of": "others"}},
        ),
        httpx.post(f"{url}/v2/models/fraud/infer", content=body, headers=headers),
        httpx.post(f"{url}/v2/models/fraud/versions/1/infer", content=body, headers=headers),
    ]

    for answer in answers:
        content = answer.json()
        (output,) = content["outputs"]
        assert (content["model_name"], content["model_version"]) == ("fraud", "1")
        assert (output["name"], output["datatype"], output["shape"]) == ("score", "FP32", [3])
        assert output["data"] == pytest.approx(expected(), abs=1e-6)
    assert answers[0].json()["id"] == "7"


@pytest.mark.parametrize(
    "options",
    [
        {"parameters": {"binary_data_output": True}},
        {"outputs": [{"name": "score", "parameters": {"binary_data": True}}]},
    ],
)
def test_scores_come_as_bytes_where_they_are_asked_for_so(url, options) -> None:
    answer = httpx.post(f"{url}/v2/models/fraud/infer", json={"inputs": [INPUT | {"data": ROWS.tolist()}], **options})

    length = int(answer.headers[LENGTH])
    (output,) = json.loads(answer.content[:length])["outputs"]
    assert answer.headers["content-type"] == "application/octet-stream"
    assert output["parameters"] == {"binary_data_size": 12}
    assert np.frombuffer(answer.content[length:], "<f4").tolist() == pytest.approx(expected(), abs=1e-6)


@pytest.mark.parametrize(
    ("change", "field", "allowed"),
    [
        ({"inputs": []}, "inputs", "one input, 'inputs'"),
        ({"inputs": [INPUT | {"name": "x", "data": []}]}, "inputs", "one input, 'inputs'"),
        ({"inputs": [INPUT | {"datatype": "FP64", "data": []}]}, "inputs[0].datatype", "FP32"),
        ({"inputs": [INPUT | {"shape": [3], "data": []}]}, "inputs[0].shape", "[n, 4] with n from 1 to 1024"),
        ({"inputs": [INPUT | {"shape": [3, 5], "data": []}]}, "inputs[0].shape", "[n, 4]"),
        ({"inputs": [INPUT | {"shape": [0, 4], "data": []}]}, "inputs[0].shape", "[n, 4]"),
        ({"inputs": [INPUT | {"shape": [-1, 4], "data": []}]}, "inputs[0].shape", "[n, 4]"),
        ({"inputs": [INPUT | {"shape": [1025, 4], "data": []}]}, "inputs[0].shape", "n from 1 to 1024"),
        ({"inputs": [INPUT | {"data": [1.0]}]}, "inputs[0].data", "12, as the shape says"),
        ({"inputs": [INPUT | {"data": ["a"] * 12}]}, "inputs[0].data", "numbers in one list"),
        ({"inputs": [INPUT | {"data": [[1.0], [1.0, 2.0]]}]}, "inputs[0].data", "numbers in one list"),
        ({"inputs": [INPUT | {"data": [None] * 12}]}, "inputs[0].data", "numbers in one list"),
        ({"inputs": [INPUT]}, "inputs[0].data", "numbers in one list"),
        ({"inputs": [INPUT | {"parameters": {"binary_data_size": 48}}]}, "inputs[0].parameters.binary_data_size", "0,"),
        ({"inputs": [INPUT | {"data": [1.0] * 12}], "outputs": [{"name": "x"}]}, "outputs", "'score'"),
        ({"inputs": [INPUT | {"data": [1e39] * 12}]}, "inputs[0].data", "within the range of float32"),
        ({}, "body", "an inference request"),
        ([], "body", "an inference request"),
    ],
)
def test_a_wrong_request_is_told_the_field_and_what_is_allowed(url, change, field, allowed) -> None:
    answer = httpx.post(f"{url}/v2/models/fraud/infer", json=change)

    assert (answer.status_code, answer.json()["field"]) == (400, field)
    assert allowed in answer.json()["allowed"]


@pytest.mark.parametrize("index", [0, 5, 11])
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_none_is_refused_with_its_index_and_no_metric_hears_of_it(url, wrong, index) -> None:
    values = ROWS.copy()
    values.flat[index] = wrong
    body, headers = binary({"inputs": [INPUT | {"parameters": {"binary_data_size": values.nbytes}}]}, values.tobytes())
    answer = httpx.post(f"{url}/v2/models/fraud/infer", content=body, headers=headers)
    assert (answer.status_code, answer.json()["field"]) == (400, f"inputs[0].data[{index}]")
    assert "nan" not in httpx.get(f"{url}/metrics").text.lower()


def test_bytes_behind_the_json_that_no_input_names_are_refused(url) -> None:
    body, headers = binary({"inputs": [INPUT | {"data": ROWS.tolist()}]}, ROWS.tobytes())
    answer = httpx.post(f"{url}/v2/models/fraud/infer", content=body, headers=headers)
    assert (answer.status_code, answer.json()["field"]) == (400, "inputs[0].parameters.binary_data_size")


def test_classes_are_refused_where_a_model_has_none(url) -> None:
    outputs = [{"name": "score", "parameters": {"classification": 1}}]
    body = {"inputs": [INPUT | {"data": ROWS.tolist()}], "outputs": outputs}
    answer = httpx.post(f"{url}/v2/models/fraud/infer", json=body)
    assert (answer.status_code, answer.json()["field"]) == (400, "outputs[0].parameters.classification")


@pytest.mark.parametrize("length", ["9999", "-1", "x", "+5", "9" * 5000, "0" * 5000 + "2"])
def test_a_length_of_the_json_that_cannot_be_is_refused(url, length) -> None:
    answer = httpx.post(f"{url}/v2/models/fraud/infer", content=b"{}", headers={LENGTH: length})
    assert (answer.status_code, answer.json()["field"]) == (400, "Inference-Header-Content-Length")


@pytest.mark.parametrize("path", ["other", "other/infer", "fraud/versions/2", "fraud/versions/2/infer"])
def test_another_model_or_version_is_said_to_be_unknown(url, path) -> None:
    url_of_path = f"{url}/v2/models/{path}"
    answer = httpx.post(url_of_path, json={}) if path.endswith("infer") else httpx.get(url_of_path)
    assert answer.status_code == 404
    assert "this server has fraud, version 1" in answer.json()["error"]


def test_the_server_and_the_model_say_what_they_are(serve) -> None:
    url = serve(limits=ServerLimits(rows=64, delay=0.002)).url
    assert "binary_tensor_data" in httpx.get(f"{url}/v2").json()["extensions"]
    assert httpx.get(f"{url}/v2/models/fraud/ready").status_code == 200
    assert httpx.get(f"{url}/v2/models/fraud").json() == {
        "name": "fraud",
        "versions": ["1"],
        "platform": "onnxruntime_onnx",
        "inputs": [{"name": "inputs", "datatype": "FP32", "shape": [-1, 4]}],
        "outputs": [{"name": "score", "datatype": "FP32", "shape": [-1]}],
    }
    config = httpx.get(f"{url}/v2/models/fraud/config").json()
    assert (config["max_batch_size"], config["input"][0]["dims"]) == (64, [4])
    assert config["dynamic_batching"] == {"max_queue_delay_microseconds": 2000}
    (entry,) = httpx.post(f"{url}/v2/repository/index", json={}).json()
    assert (entry["name"], entry["version"], entry["state"]) == ("fraud", "1", "READY")


def test_statistics_count_requests_rows_and_calls(serve) -> None:
    url = f"{serve().url}/v2/models/fraud"
    for _ in range(2):
        httpx.post(f"{url}/infer", json={"inputs": [INPUT | {"data": ROWS.tolist()}]})

    (statistics,) = httpx.get(f"{url}/versions/1/stats").json()["model_stats"]

    assert (statistics["inference_count"], statistics["execution_count"]) == (6, 2)
    assert statistics["inference_stats"]["success"]["count"] == 2
    assert statistics["inference_stats"]["success"]["ns"] > statistics["inference_stats"]["compute_infer"]["ns"] > 0
    assert httpx.get(f"{serve().url}/v2/models/stats").json()["model_stats"][0]["last_inference"] == 0
