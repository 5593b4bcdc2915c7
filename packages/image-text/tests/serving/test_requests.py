"""A request with an image, a report or both gets findings, embeddings and what is near, whichever way it is asked."""

from base64 import b64encode
from typing import Any

import httpx
import numpy as np
import pytest

from nightshift.serving.items.loader import load_schema
from nightshift_image_text.task.answers import NEAREST


def instance(pairs: Any, row: int, *names: str) -> dict[str, str]:
    whole = {"image": b64encode(pairs.images[row]).decode(), "report": pairs.reports[row]}
    return {name: whole[name] for name in names}


def post(url: str, body: Any, path: str = "/score") -> Any:
    answer = httpx.post(f"{url}{path}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


IMAGE = {"labels", "score", "scores", "image_embedding", "nearest_reports"}
REPORT = {"text_embedding", "nearest_images"}


@pytest.mark.parametrize(
    ("names", "answered"), [(["image"], IMAGE), (["report"], REPORT), (["image", "report"], IMAGE | REPORT)]
)
def test_an_item_is_answered_by_the_towers_whose_fields_it_has(url, uri, pairs, names, answered) -> None:
    one = post(url, instance(pairs, 3, *names) | {"id": "a"})
    assert set(one) == answered | {"model_version"}
    expected = pairs.expect(uri)
    for name in answered & {"image_embedding", "text_embedding"}:
        assert one[name] == pytest.approx(expected[name][3].tolist(), abs=1e-6)
    if "scores" in answered:
        assert list(one["scores"].values()) == pytest.approx(expected["score"][3].tolist(), abs=1e-6)


def test_an_image_finds_reports_and_a_report_finds_images_as_an_exact_search_does(url, uri, pairs) -> None:
    expected, one = pairs.expect(uri), post(url, instance(pairs, 5, "image", "report"))
    near = expected["text_embedding"] @ expected["image_embedding"][5]
    assert [row["id"] for row in one["nearest_reports"]] == [f"s{key}" for key in np.argsort(-near)[:NEAREST]]
    assert [row["report"] for row in one["nearest_reports"]] == [pairs.reports[k] for k in np.argsort(-near)[:NEAREST]]
    assert [row["similarity"] for row in one["nearest_reports"]] == pytest.approx(np.sort(near)[::-1][:5], abs=1e-5)
    near = expected["image_embedding"] @ expected["text_embedding"][5]
    assert [row["id"] for row in one["nearest_images"]] == [f"e{key}" for key in np.argsort(-near)[:NEAREST]]


@pytest.mark.parametrize("path", ["/score", "/invocations"])
def test_items_with_other_fields_share_a_request_and_keep_their_order(url, uri, pairs, path) -> None:
    shown = [("image",), ("report",), ("image", "report"), ("report",), ("image",)]
    instances = [instance(pairs, row, *names) for row, names in enumerate(shown)]
    instances[0]["image"] = {"b64": instances[0]["image"]}  # as Vertex AI's clients do
    instances[1]["image"] = None
    answers, expected = post(url, {"instances": instances}, path)["predictions"], pairs.expect(uri)
    for row, (names, answer) in enumerate(zip(shown, answers, strict=True)):
        assert set(answer) == {"version"} | (IMAGE if "image" in names else set()) | (
            REPORT if "report" in names else set()
        )
        if "report" in names:
            assert answer["text_embedding"] == pytest.approx(expected["text_embedding"][row].tolist(), abs=1e-6)
        if "image" in names:
            assert list(answer["scores"].values()) == pytest.approx(expected["score"][row].tolist(), abs=1e-6)


@pytest.mark.parametrize(("name", "media"), [("image", "image/png"), ("report", "text/plain; charset=utf-8")])
def test_a_body_of_a_fields_media_type_is_that_field(url, pairs, name, media) -> None:
    body = pairs.images[2] if name == "image" else pairs.reports[2].encode()
    answer = httpx.post(f"{url}/score", content=body, headers={"content-type": media}).json()
    assert answer == post(url, instance(pairs, 2, name))


def test_a_dicom_file_is_refused_since_it_may_say_whose_it_is(url) -> None:
    answer = httpx.post(f"{url}/score", json={"image": b64encode(bytes(128) + b"DICM").decode()})
    assert answer.status_code == 400, answer.text
    assert "a DICOM file" in answer.text


def infer(url: str, *inputs: dict[str, Any], **further: Any) -> httpx.Response:
    return httpx.post(f"{url}/v2/models/scans/infer", json={"inputs": inputs, **further})


def tensor(pairs: Any, name: str) -> dict[str, Any]:
    data = {
        "report": pairs.reports[:3], "pixels": pairs.pixels[:3], "tokens": pairs.tokens[:3],
    }[name]  # fmt: skip
    datatype = {"report": "BYTES", "pixels": "UINT8", "tokens": "INT32"}[name]
    shape = [3] if name == "report" else [*data.shape]
    return {"name": name, "datatype": datatype, "shape": shape, "data": data if name == "report" else data.tolist()}


def read(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    return {output["name"]: output["data"] for output in answer.json()["outputs"]}


def test_tensors_of_either_tower_or_both_get_their_outputs(url, uri, pairs) -> None:
    expected = pairs.expect(uri)
    flat = {name: values[:3].ravel().tolist() for name, values in expected.items()}
    both = read(infer(url, tensor(pairs, "tokens"), tensor(pairs, "pixels")))
    assert set(both) == {"score", "image_embedding", "text_embedding", "label", "nearest_reports", "nearest_images"}
    assert both["score"] == pytest.approx(flat["score"], abs=1e-6)
    text = read(infer(url, tensor(pairs, "report")))
    assert set(text) == {"text_embedding", "nearest_images"}
    assert text["text_embedding"] == pytest.approx(flat["text_embedding"], abs=1e-6)
    image = read(infer(url, tensor(pairs, "pixels"), outputs=[{"name": "image_embedding"}]))
    assert list(image) == ["image_embedding"]
    assert image["image_embedding"] == pytest.approx(flat["image_embedding"], abs=1e-6)


@pytest.mark.parametrize(
    ("body", "field", "allowed"),
    [
        ({}, "body", '{"image": ..., "report": ...}'),
        ({"instances": [{"id": "a"}]}, "instances[0]", "an object of 'image', 'report' (one or more of these)"),
        ({"instances": [{"image": None, "report": None}]}, "instances[0]", "(one or more of these)"),
        ({"report": "x", "scan": "y"}, "body", "'image', 'report'"),
        ({"instances": [{"report": "x"}, {"report": "x", "image": "!"}]}, "instances[1].image", "base64"),
        ({"instances": [{"report": "x"}, {"report": " "}]}, "instances[1].report", "a text with something to see"),
        ({"image": b64encode(b"no image").decode()}, "image", "a whole file of the formats"),
    ],
)
def test_an_error_names_the_field(url, body, field, allowed) -> None:
    answer = httpx.post(f"{url}/score", json=body)
    assert answer.status_code == 400
    assert answer.json()["field"] == field
    assert allowed in answer.json()["allowed"]


def test_tensors_that_no_tower_takes_and_outputs_that_a_tower_does_not_give_are_refused(url, pairs) -> None:
    error = infer(url, tensor(pairs, "pixels"), tensor(pairs, "report")).json()
    assert error["field"] == "inputs"
    assert "'pixels' and 'tokens'" in error["allowed"]
    error = infer(url, tensor(pairs, "report"), outputs=[{"name": "score"}]).json()
    assert error["field"] == "outputs"
    assert error["allowed"] == "'text_embedding' or 'nearest_images'"
    wrong = tensor(pairs, "tokens")
    wrong["data"][1][0] = 50
    error = infer(url, wrong).json()
    assert error["field"] == "inputs[0].data"


def test_the_server_describes_what_may_be_absent(url) -> None:
    described = httpx.get(f"{url}/v2/models/scans").json()
    assert [tensor["name"] for tensor in described["inputs"]] == ["pixels", "tokens", "image", "report"]
    score = httpx.get(f"{url}/openapi.json").json()["paths"]["/score"]["post"]
    item = score["requestBody"]["content"]["application/json"]["schema"]["oneOf"][0]
    assert item["anyOf"] == [{"required": ["image"]}, {"required": ["report"]}]
    one = score["responses"]["200"]["content"]["application/json"]["schema"]["oneOf"][0]
    assert one["required"] == ["model_version"]
    assert {"image_embedding", "nearest_reports"} <= set(one["properties"])


def test_an_image_is_known_by_its_pixels_with_and_without_a_report(uri, model, pairs) -> None:
    assert load_schema(model, uri).known_by == "pixels"
