"""What is served of a request, and what a replica receives."""

import json
from typing import Any

import pytest
from openai.types import chat
from openai.types.completion_create_params import CompletionCreateParamsBase

from nightshift.gateway.completions import CHAT, DEFAULT_TOKENS, FIELDS, TEXT, parse_completion
from nightshift.gateway.errors import GatewayError
from nightshift.gateway.prefixes import BLOCK

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
        (encode(max_tokens=0), "Expected `int` >= 1 - at `$.max_tokens`"),
        (encode(max_tokens=10**9), "Expected `int` <= 1000000 - at `$.max_tokens`"),
        (encode(n=2), "n is 2; allowed: 1; send a request for each completion"),
        (encode(n_predict=9), "n_predict is not served; allowed: audio, frequency_penalty, "),
        (encode(n_cmpl=2), "n_cmpl is not served; allowed: "),
        (encode(best_of=3), "best_of is not served; allowed: "),
        (encode(user="\xff").replace(b"\\u00ff", b"\xff"), "'utf-8' codec can't decode byte 0xff"),
        (encode(tools=[]).replace(b"[]", b"[" * 100_000 + b"]" * 100_000), "recursion"),
        (
            encode(messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x"}}]}]),
            "a content part is 'image_url'; allowed: text",
        ),
    ],
    ids=range(13),
)
def test_what_is_not_served_is_refused_by_its_field(body, message) -> None:
    with pytest.raises(GatewayError) as error:
        parse_completion(CHAT, body)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("path", "params"),
    [(CHAT, chat.completion_create_params.CompletionCreateParamsBase), (TEXT, CompletionCreateParamsBase)],
)
def test_all_fields_of_openais_api_are_served(path, params) -> None:
    assert set(params.__annotations__) | {"stream"} <= FIELDS[path]


def test_several_prompts_of_one_request_are_refused() -> None:
    with pytest.raises(GatewayError, match="best_of is 3; allowed: 1"):
        parse_completion(TEXT, b'{"model": "tiny", "prompt": "a", "best_of": 3}')
    for prompt in ("", [], ["a", "b"]):
        with pytest.raises(GatewayError):
            parse_completion(TEXT, json.dumps({"model": "tiny", "prompt": prompt}).encode())
    assert parse_completion(TEXT, b'{"model": "tiny", "prompt": [1, 2, 3]}').model == "tiny"


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
