"""Requests for completions: validation, the body for the replica, and the upper bound of their tokens."""

from collections.abc import Iterable
from typing import Annotated

import msgspec

from nightshift.gateway.errors import DECODE_ERRORS, GatewayError, UnsupportedError
from nightshift.gateway.prefixes import hash_prefixes

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
DEFAULT_TOKENS = 1024  # limit of a completion whose request has none: a reservation needs one
MAX_TOKENS = 1_000_000
SAMPLE_BYTES = 4096  # of a prompt, for the log's sketch
TEMPLATE_TOKENS = 256  # first estimate of what a chat template adds to the messages
MAX_TEMPLATE_TOKENS = 16_384  # a larger count is an error of the engine
BOTH_FIELDS = """
    model max_tokens n stream stream_options seed stop temperature top_p frequency_penalty presence_penalty logit_bias
    logprobs user
"""
CHAT_FIELDS = """
    messages max_completion_tokens tools tool_choice parallel_tool_calls functions function_call response_format
    top_logprobs reasoning_effort verbosity prediction modalities audio web_search_options metadata store moderation
    service_tier safety_identifier prompt_cache_key prompt_cache_options prompt_cache_retention
"""
FIELDS = {  # of OpenAI's API
    CHAT: frozenset((BOTH_FIELDS + CHAT_FIELDS).split()),
    TEXT: frozenset([*BOTH_FIELDS.split(), "prompt", "suffix", "echo", "best_of"]),
}
# continuous counts are for interrupted streams
USAGE = {"include_usage": True, "continuous_usage_stats": True}


class ContentPart(msgspec.Struct):
    """A part of a message's content."""

    type: str


class ChatMessage(msgspec.Struct):
    """The fields of a message that the gateway reads."""

    content: str | list[ContentPart] | None = None


class StreamOptions(msgspec.Struct):
    """The usage that a client requests with a stream.

    Attributes:
        include_usage: total usage, in a separate event at the end.
        continuous_usage_stats: usage so far, in every event.
    """

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


Count = Annotated[int, msgspec.Meta(ge=1, le=MAX_TOKENS)]


class CompletionFields(msgspec.Struct):
    """The fields of a request that the gateway reads; it passes the others on."""

    model: Annotated[str, msgspec.Meta(min_length=1)]
    messages: list[ChatMessage] | None = None
    prompt: str | list[int] | None = None
    max_tokens: Count | None = None
    max_completion_tokens: Count | None = None
    n: int | None = None
    best_of: int | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None


class CompletionRequest(msgspec.Struct):
    """A checked request.

    Attributes:
        path: path of the API.
        model: requested model.
        body: body for the replica, with a token limit and, for a stream, its usage requested.
        prefixes: hashes of the prompt's prefixes.
        sample: first bytes of the prompt, in JSON.
        prompt_bytes: bytes of the whole prompt.
        prompt_tokens: upper bound of the prompt's tokens without the template: its bytes, at least one per token.
        limit: maximum tokens of the completion.
        is_stream: whether the response is a stream.
        options: the client's stream options.
    """

    path: str
    model: str
    body: bytes
    prefixes: list[int]
    sample: bytes
    prompt_bytes: int
    prompt_tokens: int
    limit: int
    is_stream: bool
    options: StreamOptions


def parse_completion(path: str, body: bytes) -> CompletionRequest:
    """Check a request.

    Raises:
        GatewayError: naming the field, its value and what is allowed.
    """
    try:
        body.decode()  # validates the skipped fields too
        fields = msgspec.json.decode(body, type=CompletionFields)
        raw = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except DECODE_ERRORS as error:
        raise GatewayError(f"the body is not a request of {path}: {error}") from None
    _check_names(path, raw)
    _check(path, fields)
    prompt = _find_prompt(path, raw)
    limit = fields.max_completion_tokens or fields.max_tokens or DEFAULT_TOKENS
    is_stream = bool(fields.stream)
    return CompletionRequest(
        path=path,
        model=fields.model,
        body=_encode_body(raw, limit, is_stream),
        prefixes=hash_prefixes(prompt),
        sample=prompt[:SAMPLE_BYTES],
        prompt_bytes=len(prompt),
        prompt_tokens=len(body),
        limit=limit,
        is_stream=is_stream,
        options=fields.stream_options or StreamOptions(),
    )


def _check_names(path: str, names: Iterable[str]) -> None:
    """Refuse fields of other APIs: some of an engine's own fields bypass `max_tokens`.

    Raises:
        UnsupportedError: naming the field and what is allowed.
    """
    for name in names:
        if name not in FIELDS[path]:
            allowed = ", ".join(sorted(FIELDS[path]))
            raise UnsupportedError(f"{name[:100]} is not served; allowed: {allowed}", name[:100])


def _check(path: str, fields: CompletionFields) -> None:
    """Refuse unsupported requests.

    Raises:
        GatewayError: for a missing prompt.
        UnsupportedError: for several completions per request, and content other than text.
    """
    if path == CHAT and not fields.messages:
        raise GatewayError("messages is empty; give at least one", "messages")
    if path == TEXT and not fields.prompt:
        raise GatewayError("prompt is empty; give a text, or a list of token ids", "prompt")
    for name in ("n", "best_of"):
        if (number := getattr(fields, name) or 1) != 1:
            raise UnsupportedError(f"{name} is {number}; allowed: 1; send a request for each completion", name)
    for message in fields.messages or []:
        for part in message.content if isinstance(message.content, list) else []:
            if part.type not in ("text", "refusal"):
                raise UnsupportedError(f"a content part is {part.type[:40]!r}; allowed: text", "messages")


def _encode_body(raw: dict[str, msgspec.Raw], limit: int, is_stream: bool) -> bytes:
    fields: dict[str, object] = raw | {"max_tokens": limit}  # the only name that every engine supports
    fields.pop("max_completion_tokens", None)
    if is_stream:
        options = msgspec.json.decode(raw.get("stream_options", b"{}"), type=dict[str, msgspec.Raw] | None)
        fields["stream_options"] = (options or {}) | USAGE
    return msgspec.json.encode(fields)


def _find_prompt(path: str, raw: dict[str, msgspec.Raw]) -> bytes:
    """Return the prompt's text, such that a longer conversation begins with the shorter one's."""
    tools = bytes(raw.get("tools", b""))  # templates write them first
    return tools + bytes(raw["messages" if path == CHAT else "prompt"])[:-1]
