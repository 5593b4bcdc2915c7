"""Requests for completions and embeddings: validation, the body for the replica, and the most tokens they may use."""

from collections.abc import Collection, Iterable
from typing import Annotated

import msgspec

from nightshift_llm.gateway.errors import DECODE_ERRORS, GatewayError, UnsupportedError
from nightshift_llm.gateway.prefixes import hash_prefixes
from nightshift_llm.gateway.tracing import UNTRACED, RequestTrace

CHAT, TEXT, EMBEDDINGS = "/v1/chat/completions", "/v1/completions", "/v1/embeddings"
PROMPTS = {CHAT: "messages", TEXT: "prompt", EMBEDDINGS: "input"}
DEFAULT_TOKENS = 1024  # limit of a completion whose request has none: a reservation needs one
MAX_TOKENS = 1_000_000
MAX_CHOICES = 128  # completions of a prompt
MAX_COMPLETION_TOKENS = MAX_TOKENS * MAX_CHOICES  # tokens of a request; at any price they fit the ledger's integers
SAMPLE_BYTES = 4096  # the part of a prompt that the log's sketch reads
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
FIELDS = {  # OpenAI's API
    CHAT: frozenset((BOTH_FIELDS + CHAT_FIELDS).split()),
    TEXT: frozenset([*BOTH_FIELDS.split(), "prompt", "suffix", "echo", "best_of"]),
    EMBEDDINGS: frozenset(["model", "input", "encoding_format", "dimensions", "user"]),
}
SAMPLING = ["top_k", "min_p", "repetition_penalty", "ignore_eos", "structured_outputs"]
# engines' own fields, beyond OpenAI's API; none of them adds tokens to `max_tokens`
ENGINE_FIELDS = frozenset([*SAMPLING, "chat_template_kwargs", "priority", "cache_salt"])
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


Limit = Annotated[int, msgspec.Meta(ge=0, le=MAX_TOKENS)]
Choices = Annotated[int, msgspec.Meta(ge=1, le=MAX_CHOICES)]
Texts = str | list[str | int | list[int]]  # a text, a list of token ids, or several of them


class CompletionFields(msgspec.Struct):
    """The fields of a request that the gateway reads; it passes the others on."""

    model: Annotated[str, msgspec.Meta(min_length=1)]
    messages: list[ChatMessage] | None = None
    prompt: Texts | None = None
    input: Texts | None = None
    max_tokens: Limit | None = None
    max_completion_tokens: Limit | None = None
    n: Choices | None = None
    best_of: Choices | None = None
    echo: bool | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    @property
    def limit(self) -> int:
        """Maximum tokens of one completion."""
        limits = (self.max_completion_tokens, self.max_tokens, DEFAULT_TOKENS)
        return next(limit for limit in limits if limit is not None)

    @property
    def completions(self) -> int:
        """Completions that the engine computes: of each prompt, as many as requested."""
        prompts = 1 if self.prompt is None else _count_texts(self.prompt)
        return prompts * max(self.n or 1, self.best_of or 1)


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
        limit: maximum tokens of all completions together.
        completions: completions that the engine computes; 0 for embeddings.
        has_echo: whether the completions repeat their prompts.
        is_stream: whether the response is a stream.
        options: the client's stream options.
        trace: ids of the request in logs.
    """

    path: str
    model: str
    body: bytes
    prefixes: list[int]
    sample: bytes
    prompt_bytes: int
    prompt_tokens: int
    limit: int
    completions: int
    has_echo: bool
    is_stream: bool
    options: StreamOptions
    trace: RequestTrace = UNTRACED


def parse_completion(
    path: str, body: bytes, trace: RequestTrace = UNTRACED, engine_fields: Collection[str] = ENGINE_FIELDS
) -> CompletionRequest:
    """Check a request.

    Args:
        path: path of the API.
        body: its JSON.
        trace: its ids.
        engine_fields: fields to pass beside those of OpenAI's API.

    Raises:
        GatewayError: naming the field, its value and what is allowed.
    """
    try:
        body.decode()  # validates the skipped fields too
        fields = msgspec.json.decode(body, type=CompletionFields)
        raw = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except DECODE_ERRORS as error:
        raise GatewayError(f"the body is not a request of {path}: {error}") from None
    _check_names(raw, FIELDS[path].union(engine_fields))
    _check(path, fields)
    prompt = _find_prompt(path, raw)
    completions = 0 if path == EMBEDDINGS else fields.completions
    return CompletionRequest(
        path=path,
        model=fields.model,
        body=_encode_body(raw, fields) if completions else msgspec.json.encode(raw),
        prefixes=hash_prefixes(prompt),
        sample=prompt[:SAMPLE_BYTES],
        prompt_bytes=len(prompt),
        prompt_tokens=len(body),
        limit=completions * fields.limit,
        completions=completions,
        has_echo=bool(fields.echo),
        is_stream=bool(fields.stream),
        options=fields.stream_options or StreamOptions(),
        trace=trace,
    )


def _check_names(names: Iterable[str], served: Collection[str]) -> None:
    """Refuse other fields: some of an engine's own bypass `max_tokens`.

    Raises:
        UnsupportedError: naming the field and what is allowed.
    """
    for name in names:
        if name not in served:
            allowed = ", ".join(sorted(served))
            raise UnsupportedError(f"{name[:100]} is not served; allowed: {allowed}", name[:100])


def _check(path: str, fields: CompletionFields) -> None:
    """Refuse requests without a prompt, and those whose tokens or content the gateway cannot count.

    Raises:
        GatewayError: for a missing prompt, and too many or no tokens.
        UnsupportedError: for content other than text.
    """
    if not getattr(fields, name := PROMPTS[path]):
        allowed = "at least one" if path == CHAT else "texts, or lists of token ids"
        raise GatewayError(f"{name} is empty; give {allowed}", name)
    if fields.limit == 0 and not (path == TEXT and fields.echo):
        raise GatewayError("max_tokens is 0; allowed: at least 1, or 0 in a text completion with echo", "max_tokens")
    if (tokens := fields.completions * fields.limit) > MAX_COMPLETION_TOKENS:
        allowed = f"at most {MAX_COMPLETION_TOKENS}; send fewer prompts at a time"
        raise GatewayError(f"the completions may have {tokens} tokens together; allowed: {allowed}", "max_tokens")
    _check_content(fields)


def _check_content(fields: CompletionFields) -> None:
    for message in fields.messages or []:
        for part in message.content if isinstance(message.content, list) else []:
            if part.type not in ("text", "refusal"):
                raise UnsupportedError(f"a content part is {part.type[:40]!r}; allowed: text", "messages")


def _encode_body(raw: dict[str, msgspec.Raw], fields: CompletionFields) -> bytes:
    body: dict[str, object] = raw | {"max_tokens": fields.limit}  # the only name that every engine supports
    body.pop("max_completion_tokens", None)
    if fields.stream:
        options = msgspec.json.decode(raw.get("stream_options", b"{}"), type=dict[str, msgspec.Raw] | None)
        body["stream_options"] = (options or {}) | USAGE
    return msgspec.json.encode(body)


def _count_texts(texts: Texts) -> int:
    """Return the number of prompts: a list of token ids is one."""
    is_one = isinstance(texts, str) or all(isinstance(text, int) for text in texts)
    return 1 if is_one else len(texts)


def _find_prompt(path: str, raw: dict[str, msgspec.Raw]) -> bytes:
    """Return the prompt's text, such that a longer conversation begins with the shorter one's."""
    tools = bytes(raw.get("tools", b""))  # templates write them first
    return tools + bytes(raw[PROMPTS[path]])[:-1]
