"""What is served of a request, and what a replica receives."""

import json
from typing import Any

import pytest
from openai.types import EmbeddingCreateParams, chat
from openai.types.completion_create_params import CompletionCreateParamsBase

from nightshift_llm.gateway.completions import (
    CHAT,
    DEFAULT_TOKENS,
    EMBEDDINGS,
    ENGINE_FIELDS,
    FIELDS,
    TEXT,
    parse_completion,
)
from nightshift_llm.gateway.errors import GatewayError
from nightshift_llm.gateway.prefixes import BLOCK

MESSAGES = [{"role": "user", "content": "hello"}]


def encode(**fields: Any) -> bytes:
    return json.dumps({"model": "tiny", "messages": MESSAGES} | fields).encode()


def parsed(**fields: Any) -> dict[str, Any]:
    """The body that a replica receives."""
    return json.loads(parse_completion(CHAT, encode(**fields)).body)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "the body is not a request of /v1/chat/completions"),
        (b'"text"', "the body is not a request of /v1/chat/completions: Expected `object`, got `str`"),
        (encode(model=""), "Expected `str` of length >= 1 - at `$.model`"),
        (encode(messages=[]), "messages is empty; give at least one"),
        (encode(max_tokens=0), "max_tokens is 0; allowed: at least 1, or 0 in a text completion with echo"),
        (encode(max_completion_tokens=0), "max_tokens is 0; allowed: at least 1"),
        (encode(max_tokens=10**9), "Expected `int` <= 1000000 - at `$.max_tokens`"),
        (encode(n=129), "Expected `int` <= 128 - at `$.n`"),
        (encode(n=0), "Expected `int` >= 1 - at `$.n`"),
        (encode(prompt=["a"]), "prompt is not served; allowed: audio, "),
        (encode(n_predict=9), "n_predict is not served; allowed: audio, cache_salt, "),
        (encode(n_cmpl=2), "n_cmpl is not served; allowed: "),
        (encode(best_of=3), "best_of is not served; allowed: "),
        (encode(user="\xff").replace(b"\\u00ff", b"\xff"), "'utf-8' codec can't decode byte 0xff"),
        (encode(tools=[]).replace(b"[]", b"[" * 100_000 + b"]" * 100_000), "recursion"),
        (
            encode(messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x"}}]}]),
            "a content part is 'image_url'; allowed: text",
        ),
    ],
    ids=range(16),
)
def test_what_is_not_served_is_refused_by_its_field(body, message) -> None:
    with pytest.raises(GatewayError) as error:
        parse_completion(CHAT, body)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("path", "params"),
    [
        (CHAT, chat.completion_create_params.CompletionCreateParamsBase),
        (TEXT, CompletionCreateParamsBase),
        (EMBEDDINGS, EmbeddingCreateParams),
    ],
)
def test_all_fields_of_openais_api_are_served(path, params) -> None:
    assert set(params.__annotations__) <= FIELDS[path]
    assert ("stream" in FIELDS[path]) == (path != EMBEDDINGS)


@pytest.mark.parametrize(
    ("fields", "completions", "limit"),
    [
        ({"prompt": "a", "max_tokens": 7}, 1, 7),
        ({"prompt": [1, 2, 3], "max_tokens": 7}, 1, 7),
        ({"prompt": ["a", "b"], "max_tokens": 7}, 2, 14),
        ({"prompt": [[1, 2], [3]], "max_tokens": 7, "n": 3}, 6, 42),
        ({"prompt": "a", "max_tokens": 7, "n": 2, "best_of": 3}, 3, 21),
        ({"prompt": ["a", "b"]}, 2, 2 * DEFAULT_TOKENS),
        ({"prompt": ["a", "b"], "max_tokens": 0, "echo": True, "logprobs": 1}, 2, 0),
    ],
    ids=range(7),
)
def test_several_prompts_and_completions_are_counted_and_passed_as_they_are(fields, completions, limit) -> None:
    completion = parse_completion(TEXT, json.dumps({"model": "tiny"} | fields).encode())
    assert (completion.completions, completion.limit) == (completions, limit)
    assert json.loads(completion.body) == {"model": "tiny", "max_tokens": DEFAULT_TOKENS} | fields


@pytest.mark.parametrize(
    ("path", "fields", "message"),
    [
        (TEXT, {"prompt": ""}, "prompt is empty; give texts, or lists of token ids"),
        (TEXT, {"prompt": []}, "prompt is empty"),
        (TEXT, {"prompt": "a", "max_tokens": 0}, "max_tokens is 0"),
        (TEXT, {"prompt": ["a"] * 1000, "max_tokens": 1_000_000}, "may have 1000000000 tokens together; allowed: at"),
        (EMBEDDINGS, {"input": ""}, "input is empty"),
        (EMBEDDINGS, {"input": "a", "stream": True}, "stream is not served; allowed: cache_salt, "),
    ],
    ids=range(6),
)
def test_a_request_whose_tokens_cannot_be_counted_is_refused(path, fields, message) -> None:
    with pytest.raises(GatewayError, match=message):
        parse_completion(path, json.dumps({"model": "tiny"} | fields).encode())


def test_embeddings_have_no_limit_of_tokens() -> None:
    fields = {"model": "tiny", "input": ["a", "b"], "encoding_format": "float"}
    completion = parse_completion(EMBEDDINGS, json.dumps(fields).encode())
    assert (completion.completions, completion.limit, json.loads(completion.body)) == (0, 0, fields)


def test_an_engines_fields_pass_and_more_of_them_where_the_operator_names_them() -> None:
    fields = dict.fromkeys(sorted(ENGINE_FIELDS), 1)
    assert parsed(**fields) == {"model": "tiny", "messages": MESSAGES, "max_tokens": DEFAULT_TOKENS} | fields
    body = encode(typical_p=0.5)
    assert json.loads(parse_completion(CHAT, body, engine_fields=["typical_p"]).body)["typical_p"] == 0.5
    with pytest.raises(GatewayError, match="typical_p is not served"):
        parse_completion(CHAT, body)


@pytest.mark.parametrize(
    ("fields", "limit"),
    [({}, DEFAULT_TOKENS), ({"max_tokens": 7}, 7), ({"max_tokens": 7, "max_completion_tokens": 5}, 5)],
)
def test_every_request_has_a_limit_of_tokens_under_the_name_that_all_engines_know(fields, limit) -> None:
    assert parsed(**fields) == {"model": "tiny", "messages": MESSAGES, "max_tokens": limit}
    body = encode(**fields)
    completion = parse_completion(CHAT, body)
    assert (completion.prompt_tokens, completion.limit) == (len(body), limit)


def test_a_stream_is_asked_for_its_usage_and_all_other_fields_stay_as_they_are() -> None:
    options = {"include_usage": False, "chunk": 3}
    body = parsed(stream=True, stream_options=options, tools=[{"type": "function"}], seed=1.50)
    assert body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True, "chunk": 3}
    assert (body["tools"], body["seed"]) == ([{"type": "function"}], 1.5)
    assert parsed(stream=True, stream_options=None)["stream_options"]["include_usage"]
    assert "stream_options" not in parsed(stream=False)


def test_a_conversation_that_goes_on_begins_with_the_prefixes_of_its_past() -> None:
    past = [{"role": "system", "content": "x" * 5 * BLOCK}, *MESSAGES]
    more = [*past, {"role": "assistant", "content": "y" * BLOCK}, *MESSAGES]
    short, long = (parse_completion(CHAT, encode(messages=messages)).prefixes for messages in (past, more))
    assert long[: len(short)] == short
    assert len(long) > len(short) >= 5
