"""Log-likelihoods and greedy completions from a server of OpenAI's `/v1/completions`, by numbers of tokens.

Engines that can `echo` a prompt with its log-probabilities, such as vLLM, are asked once for each text, as
lm-evaluation-harness does. llama.cpp cannot: it is made to generate a text's tokens one after the other, by a
`logit_bias`, and reports each with the log-probability that it had without the bias.
"""

import math
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec
import urllib3
from tokenizers import Tokenizer

from nightshift.runtime.errors import UnavailableError, UserError, may_pass
from nightshift_llm.streams.client import Target

CONNECTIONS = 4  # requests at once
SECONDS = 300.0  # for an answer
SERVE = "serve the model with llama.cpp or vLLM"
BIAS = 100  # the highest of OpenAI's API: no other token is generated


class Likelihood(NamedTuple):
    """The likelihood of a continuation after a context.

    Attributes:
        nats: log-likelihood in nats.
        is_greedy: whether greedy decoding generates it.
    """

    nats: float
    is_greedy: bool


class TopToken(msgspec.Struct):
    """One of the likeliest tokens, as llama.cpp reports it."""

    logprob: float


class ContentToken(msgspec.Struct):
    """A generated token, as llama.cpp reports it."""

    logprob: float
    top_logprobs: list[TopToken] = []


class TokenLogprobs(msgspec.Struct):
    """Log-probabilities of tokens: OpenAI's lists, or llama.cpp's `content`."""

    token_logprobs: list[float | None] = []
    top_logprobs: list[dict[str, float] | None] = []
    content: list[ContentToken] = []

    def list_pairs(self) -> list[tuple[float, float]]:
        """Return of each token its log-probability and the highest; a prompt's first token has none, and counts 0."""
        if self.content:
            return [
                (token.logprob, max(top.logprob for top in token.top_logprobs or [TopToken(token.logprob)]))
                for token in self.content
            ]
        pairs = zip(self.token_logprobs, self.top_logprobs, strict=True)
        return [(own or 0.0, max((top or {"": own or 0.0}).values())) for own, top in pairs]


class CompletionChoice(msgspec.Struct):
    """A completion."""

    text: str = ""
    logprobs: TokenLogprobs | None = None


class CompletionAnswer(msgspec.Struct):
    """The response of `/v1/completions`."""

    choices: list[CompletionChoice]


class CompletionEndpoint:
    """A model behind a server.

    Attributes:
        target: the server and its path.
        model: model name in requests.
    """

    def __init__(self, target: Target, model: str) -> None:
        self.target, self.model = target, model
        token = {"authorization": f"Bearer {target.token}"} if target.token else {}
        headers = {"content-type": "application/json", **token}
        self._pool = urllib3.PoolManager(maxsize=CONNECTIONS, headers=headers, timeout=SECONDS, retries=False)

    def complete(self, tokens: Sequence[int], limit: int, **fields: Any) -> CompletionChoice:
        """Return the greedy completion of a prompt, up to a number of tokens.

        Raises:
            UnavailableError: when the server does not respond, or is overloaded.
            UserError: when the server refuses the request.
        """
        return self._read_choice(self._send(tokens, limit, fields))

    def can_echo(self, tokens: Sequence[int]) -> bool:
        """Return whether the server echoes prompts with their log-probabilities; raises as `complete`."""
        response = self._send(tokens, 1, {"echo": True, "logprobs": 1})
        if response.status == HTTPStatus.BAD_REQUEST:
            return False
        logprobs = self._read_choice(response).logprobs
        return logprobs is not None and len(logprobs.list_pairs()) > len(tokens)

    def _send(self, tokens: Sequence[int], limit: int, fields: dict[str, Any]) -> urllib3.BaseHTTPResponse:
        body = {"model": self.model, "prompt": list(tokens), "max_tokens": limit, "temperature": 0, **fields}
        url = f"{self.target.url}{self.target.path}"
        try:
            return self._pool.request("POST", url, body=msgspec.json.encode(body))
        except urllib3.exceptions.HTTPError as error:
            raise UnavailableError(f"{url} does not answer ({error}); start the server") from None

    def _read_choice(self, response: urllib3.BaseHTTPResponse) -> CompletionChoice:
        status, url = response.status, f"{self.target.url}{self.target.path}"
        if status != HTTPStatus.OK:
            error = UnavailableError if may_pass(status) else UserError
            text = response.data[:300].decode(errors="replace")
            raise error(f"{url} answered {status}: {text}; check --model, --token-file and the server's context")
        try:
            return msgspec.json.decode(response.data, type=CompletionAnswer).choices[0]
        except (msgspec.DecodeError, IndexError) as error:
            raise UserError(f"{url} gives no completion ({error}); give the URL of an OpenAI API") from None


class LikelihoodReader(Protocol):
    """Measures continuations at a server."""

    def measure(self, context: Sequence[int], continuation: Sequence[int]) -> Likelihood:
        """Return how likely a continuation is."""
        ...


class EchoReader:
    """Measures by echoed prompts, one request per continuation."""

    def __init__(self, endpoint: CompletionEndpoint) -> None:
        self._endpoint = endpoint

    def measure(self, context: Sequence[int], continuation: Sequence[int]) -> Likelihood:
        """Return how likely a continuation is; raises as `CompletionEndpoint.complete`."""
        choice = self._endpoint.complete([*context, *continuation], 1, echo=True, logprobs=1)
        pairs = choice.logprobs.list_pairs() if choice.logprobs else []
        whole = len(context) + len(continuation)
        if len(pairs) < whole:
            raise UserError(f"{self._endpoint.target.url} gives logprobs of {len(pairs)} of {whole} tokens; {SERVE}")
        return _sum_up(pairs[len(context) : whole])


class ForcedReader:
    """Measures by forced decoding, one request per token; the server's prefix cache has the rest."""

    def __init__(self, endpoint: CompletionEndpoint) -> None:
        self._endpoint = endpoint

    def measure(self, context: Sequence[int], continuation: Sequence[int]) -> Likelihood:
        """Return how likely a continuation is; raises as `CompletionEndpoint.complete`."""
        tokens = [*context, *continuation]
        return _sum_up([self.force(tokens[:end], tokens[end]) for end in range(len(context), len(tokens))])

    def force(self, prompt: Sequence[int], token: int) -> tuple[float, float]:
        """Return a token's log-probability, and that of the likeliest one.

        Raises:
            UserError: when the server reports none.
        """
        choice = self._endpoint.complete(prompt, 1, logprobs=1, logit_bias={str(token): BIAS})
        pairs = choice.logprobs.list_pairs() if choice.logprobs else []
        if not pairs:
            raise UserError(f"{self._endpoint.target.url} reports no logprobs; {SERVE}")
        own, highest = pairs[0]
        return own, max(own, highest)


def open_reader(endpoint: CompletionEndpoint, tokens: Sequence[int]) -> LikelihoodReader:
    """Return the method of measurement that the server supports.

    Args:
        endpoint: of the server.
        tokens: of a text, two different ones at least, to try it with.

    Raises:
        UserError: when it has none; also as `CompletionEndpoint.complete`.
    """
    if endpoint.can_echo(tokens):
        return EchoReader(endpoint)
    forced = ForcedReader(endpoint)
    shares = [math.exp(forced.force(tokens[:1], token)[0]) for token in sorted(set(tokens))[:2]]
    if sum(shares) > 1 + 1e-6:
        raise UserError(
            f"{endpoint.target.url} reports logprobs after the logit_bias, which say nothing of the model; "
            "serve it with llama.cpp, or an engine that echoes prompts"
        )
    return forced


def load_tokenizer(path: Path) -> Tokenizer:
    """Read a model's tokenizer.

    Raises:
        UserError: when the file is none.
    """
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises no class of its own
        raise UserError(f"tokenizer is {str(path)!r}: {error}; give the model's tokenizer.json") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def split_tokens(tokenizer: Tokenizer, context: str, continuation: str) -> tuple[list[int], list[int]]:
    """Return the tokens of a context, and those that a continuation adds, as lm-evaluation-harness splits them."""
    first, whole = tokenizer.encode(context).ids, tokenizer.encode(context + continuation).ids
    return first, whole[len(first) :]


def _sum_up(pairs: Sequence[tuple[float, float]]) -> Likelihood:
    return Likelihood(sum(own for own, _ in pairs), all(own >= highest for own, highest in pairs))
