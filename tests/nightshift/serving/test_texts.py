"""Texts in every form in which they may come get the scores that the offline code gives their tokens."""

import shutil
from collections.abc import Iterator

import httpx
import numpy as np
import pytest

from nightshift.contracts import package
from nightshift.items.scorer import ClassScorer
from nightshift.runtime.errors import UserError
from nightshift.serving.batching import ServerLimits
from nightshift.serving.items.loader import load_schema
from tests.components import topics
from tests.nightshift.serving.conftest import serving
from tests.nightshift.serving.texts import TEXTS, inputs, saved, with_tokenizer


@pytest.fixture(scope="module", params=["hashed", "tokenizer"])
def uri(request, tmp_path_factory) -> str:
    folder = tmp_path_factory.mktemp("texts")
    return saved(folder) if request.param == "hashed" else with_tokenizer(folder)


@pytest.fixture(scope="module")
def url(uri: str, tmp_path_factory) -> Iterator[str]:
    with serving(uri, tmp_path_factory.mktemp("served") / "current.json", ServerLimits(rows=8)) as running:
        yield running.url


@pytest.mark.parametrize("text", TEXTS, ids=["words", "marks", "long"])
def test_a_text_gets_the_offline_scores_as_a_body_and_in_json(url, uri, text) -> None:
    (expected,) = ClassScorer(uri, package.load(uri)).score(inputs(uri, text))
    body = {"content": text.encode(), "headers": {"content-type": "text/plain; charset=utf-8"}}
    vertex = httpx.post(f"{url}/score", json={"instances": [{"text": text}]}).json()["predictions"][0]
    for answer in (httpx.post(f"{url}/score", **body), httpx.post(f"{url}/score", json={"text": text, "id": "a"})):
        content = answer.json()
        assert answer.status_code == 200, content
        assert np.array(list(content["scores"].values()), np.float32).tobytes() == expected.tobytes()
        assert content["label"] == vertex["label"] == topics.CONFIG["task"]["classes"][int(expected.argmax())]


def test_tensors_of_texts_and_of_tokens_get_the_same_scores(url, uri) -> None:
    expected = ClassScorer(uri, package.load(uri)).score(inputs(uri, *TEXTS))
    as_texts = {"name": "text", "datatype": "BYTES", "shape": [3], "data": TEXTS}
    as_tokens = {"name": "inputs", "datatype": "INT32", "shape": [3, 16], "data": inputs(uri, *TEXTS).tolist()}
    for tensor in (as_texts, as_tokens):
        outputs = httpx.post(f"{url}/v2/models/fraud/infer", json={"inputs": [tensor]}).json()["outputs"]
        scores = next(output["data"] for output in outputs if output["name"] == "score")
        assert np.array(scores, np.float32).tobytes() == expected.tobytes()


def test_the_best_classes_are_answered_as_tritons_clients_ask_for_them(url, uri) -> None:
    expected, names = ClassScorer(uri, package.load(uri)).score(inputs(uri, *TEXTS)), topics.CONFIG["task"]["classes"]
    body = {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [3], "data": TEXTS}]}

    def answer(count: int) -> httpx.Response:
        outputs = [{"name": "score", "parameters": {"classification": count}}]
        return httpx.post(f"{url}/v2/models/fraud/infer", json=body | {"outputs": outputs})

    (output,) = answer(2).json()["outputs"]
    assert (output["datatype"], output["shape"]) == ("BYTES", [3, 2])
    best = [(row, number) for row in expected for number in np.argsort(-row)[:2].tolist()]
    assert output["data"] == [f"{row[number]:f}:{number}:{names[number]}" for row, number in best]
    assert [answer(count).status_code for count in (-1, 5)] == [400, 400]


@pytest.mark.parametrize(
    ("content", "rule"),
    [(b"", "empty"), (" \n\u200b".encode(), "empty"), (b"\xff\xfe", "invalid_utf8"), (b"a\0b", "binary")],
)
def test_a_text_that_training_would_not_take_is_refused_with_the_rule(url, content, rule) -> None:
    answer = httpx.post(f"{url}/score", content=content, headers={"content-type": "text/plain"})
    assert answer.status_code == 400
    assert rule in answer.text


@pytest.mark.parametrize("number", [-1, 512])
def test_tokens_that_there_are_not_are_refused(url, number) -> None:
    tensor = {"name": "inputs", "datatype": "INT32", "shape": [1, 16], "data": [number] * 16}
    answer = httpx.post(f"{url}/v2/models/fraud/infer", json={"inputs": [tensor]})
    assert answer.status_code == 400
    assert "numbers from 0 to" in answer.text


def test_a_text_that_is_shown_in_json_is_read_back(uri) -> None:
    (field,) = load_schema(package.load(uri), uri).fields
    assert field.parse(field.format("né 🙂".encode())) == "né 🙂".encode()


def test_a_tokenizer_that_is_not_the_registered_one_is_not_served(tmp_path, uri) -> None:
    if package.load(uri).classes.tokenizer is None:
        return
    shutil.copytree(uri, tmp_path / "model")
    (tmp_path / "model" / "tokenizer.json").write_bytes(b"{}")
    with pytest.raises(UserError, match=r"tokenizer.json is not the file that model.json names"):
        load_schema(package.load(str(tmp_path / "model")), str(tmp_path / "model"))


def test_what_a_version_cannot_score_is_no_example(uri) -> None:
    schema = load_schema(package.load(uri), uri)
    none, night, shift, nul = ({"text": text} for text in (b"", b"night", b"shift", b"\0"))
    assert list(schema.filter_usable([none, night, nul])) == [night]
    raw = iter([none, night, shift])
    assert (next(schema.filter_usable(raw)), list(raw)) == (night, [shift])  # no more are read than are taken
    with pytest.raises(UserError, match="can score no text of the newest day"):
        next(schema.filter_usable([none]))
