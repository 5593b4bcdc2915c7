"""A request at the replicas: attempts until the first byte, then its stream, and the settlement of its tokens.

An attempt is repeated at another replica as long as the client has received nothing, and none has done the work. After
the first byte of a stream nothing is repeated: a stream that breaks ends with an error event, and without `[DONE]`.
A replica's answer to one request does not count against it: only a failed connection or check marks it as failed.
"""

import math
import time
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus

import msgspec

from nightshift.http.client import ExchangeError, InvalidResponseError, SilentServerError, UnreachableError
from nightshift.http.messages import HttpResponse, Stream
from nightshift.http.pool import HttpConnection
from nightshift.runtime.step import log
from nightshift_llm.gateway.answers import AnswerOpening
from nightshift_llm.gateway.budgets import Amount
from nightshift_llm.gateway.completion_stream import LAST_EVENT, CompletionStream, encode_interruption
from nightshift_llm.gateway.completions import EMBEDDINGS, MAX_TEMPLATE_TOKENS, TEMPLATE_TOKENS, CompletionRequest
from nightshift_llm.gateway.errors import DECODE_ERRORS, BadGatewayError, NoReplicaError, OddAnswerError, SilenceError
from nightshift_llm.gateway.fleet import EngineReplica, Fleet, Lease
from nightshift_llm.gateway.keys import ApiKey
from nightshift_llm.gateway.ledger import NOTHING, Ledger, Reservation, Tokens, TokenUsage, measure_cost
from nightshift_llm.gateway.metrics import GatewayMetrics
from nightshift_llm.gateway.prices import Prices
from nightshift_llm.gateway.request_log import INTERRUPTED, RequestLog, RequestRecord, now, sketch_prompt

MAX_FAILURES = 3  # a request that breaks replicas must not break all
BUSY = frozenset(  # statuses of a replica that cannot answer now, while others may
    {
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)
PASSED = ("content-type", "retry-after")  # headers of a whole answer
JSON, EVENTS = "application/json", "text/event-stream"
EVENT_STREAM = {"content-type": f"{EVENTS}; charset=utf-8", "cache-control": "no-cache"}


class CompletionBody(msgspec.Struct):
    """The fields of a non-streamed answer that the gateway reads."""

    usage: TokenUsage | None = None


class EmbeddingUsage(msgspec.Struct):
    """The tokens of embeddings."""

    prompt_tokens: Tokens


class EmbeddingBody(msgspec.Struct):
    """The fields of an answer with embeddings that the gateway reads."""

    usage: EmbeddingUsage | None = None


class BusyError(ExchangeError):
    """A replica that refuses requests at the moment.

    Attributes:
        response: its answer.
        seconds: its Retry-After; infinite without one in seconds.
    """

    def __init__(self, url: str, response: HttpResponse) -> None:
        super().__init__(f"{url} answers {response.status}")
        self.response, text = response, response.headers.get("retry-after", "")
        self.seconds = float(text) if text.isdecimal() else math.inf


@dataclass(frozen=True)
class EndedRequest:
    """A request at its end.

    Attributes:
        completion: the request.
        reservation: reservation of its tokens.
        version: model version that answered.
        usage: tokens that the engine counted; None without a count, or with an impossible one.
        is_whole: whether the answer is complete.
        is_declined: whether the model has declined to answer.
        seconds: time since it was sent to the replica.
    """

    completion: CompletionRequest
    reservation: Reservation
    version: str
    usage: TokenUsage | None
    is_whole: bool
    is_declined: bool
    seconds: float

    def describe(self) -> RequestRecord:
        """Return its log record."""
        usage = self.usage or NOTHING
        return RequestRecord(
            at=now(),
            status=int(HTTPStatus.OK),
            code="" if self.is_whole else INTERRUPTED,
            key=self.reservation.key,
            model=self.completion.model,
            version=self.version,
            prompt_bytes=self.completion.prompt_bytes,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            seconds=round(self.seconds, 3),
            is_declined=self.is_declined,
            sketch=sketch_prompt(self.completion.sample),
            request_id=self.completion.trace.request_id,
            traceparent=self.completion.trace.traceparent,
        )


class Accounts:
    """Reserves and charges the tokens of requests."""

    def __init__(self, ledger: Ledger, metrics: GatewayMetrics, prices: Prices, request_log: RequestLog | None) -> None:
        self._ledger, self._metrics, self._prices, self._log = ledger, metrics, prices, request_log
        # model -> largest excess of a prompt's tokens over the bytes of its request
        self._templates: defaultdict[str, int] = defaultdict(lambda: TEMPLATE_TOKENS)

    async def reserve(self, key: ApiKey, completion: CompletionRequest, versions: Iterable[str]) -> Reservation:
        """Reserve a request's worst case over some versions; raises as `Ledger.reserve`."""
        prompt, rate = completion.prompt_tokens + self._templates[completion.model], self._prices.find_highest(versions)
        amount = Amount(prompt + completion.limit, rate.cost(prompt, completion.limit))
        return await self._ledger.reserve(key, amount, rate)

    def settle(self, ended: EndedRequest) -> None:
        """Charge a request's usage, once; without a usage, its reservation."""
        completion, reservation, usage = ended.completion, ended.reservation, ended.usage
        if reservation.is_settled:
            return
        rate = self._prices.find_rate(ended.version)
        self._ledger.settle(reservation, ended.version, usage, rate)
        self._metrics.count_tokens(reservation, usage, measure_cost(reservation, usage, rate))
        self._metrics.count_answer(ended.version, is_declined=ended.is_declined)
        if self._log:
            self._log.add(ended.describe())
        if usage:
            beyond = usage.prompt_tokens - completion.prompt_tokens
            self._templates[completion.model] = max(self._templates[completion.model], beyond)

    def release(self, reservation: Reservation) -> None:
        """Return a request's reservation, unless it is settled."""
        if not reservation.is_settled:
            self._ledger.release(reservation)

    async def flush(self) -> None:
        """Wait until all settlements so far are on disk."""
        await self._ledger.flush()


class Forwarder:
    """Sends requests to the replicas of a fleet, within the budgets of their keys."""

    def __init__(self, fleet: Fleet, accounts: Accounts, metrics: GatewayMetrics) -> None:
        self._fleet, self._accounts, self._metrics = fleet, accounts, metrics

    async def complete(self, key: ApiKey, completion: CompletionRequest) -> HttpResponse:
        """Answer a request; a stream is settled at its end.

        Raises:
            GatewayError: when it is refused, or all attempts have failed.
        """
        candidates = self._fleet.find_candidates(completion.model)  # an unknown model reserves nothing
        versions = {replica.address.version or completion.model for replica in candidates}
        reservation = await self._accounts.reserve(key, completion, versions)
        try:
            return await self._attempt(completion, reservation)
        except BaseException:  # includes a client that disconnects before a replica has the request
            self._accounts.release(reservation)
            raise

    async def _attempt(self, completion: CompletionRequest, reservation: Reservation) -> HttpResponse:
        """Try replicas until one responds, each once; busy ones cost nothing, so that all of them are tried.

        Raises:
            GatewayError: when none has answered.
        """
        started, errors = time.perf_counter(), dict[EngineReplica, ExchangeError]()
        while _count_failures(errors) < MAX_FAILURES and (lease := self._lease(completion, errors)):
            if errors:
                self._metrics.retries.inc()
            exchange = Exchange(completion, reservation, lease, self._accounts, self._metrics)
            try:
                response = await exchange.run()
            except ExchangeError as error:
                errors[lease.replica] = error
            else:
                self._metrics.count_prompt(lease.prompt_blocks, lease.cached_blocks)
                seconds = time.perf_counter() - started
                self._metrics.count_first_byte(seconds, is_stream=response.stream is not None)
                return response
        if busy := [error for error in errors.values() if isinstance(error, BusyError)]:
            self._accounts.release(reservation)
            return min(busy, key=lambda error: error.seconds).response
        raise BadGatewayError(f"no replica has answered; tried: {len(errors)}, the last: {list(errors.values())[-1]}")

    def _lease(self, completion: CompletionRequest, errors: dict[EngineReplica, ExchangeError]) -> Lease | None:
        """Choose a replica that has not failed; None after the last one."""
        try:
            return self._fleet.lease(completion.model, completion.prefixes, errors)
        except NoReplicaError:
            if errors:
                return None
            raise


class Exchange:
    """One attempt of a request at one replica."""

    def __init__(
        self,
        completion: CompletionRequest,
        reservation: Reservation,
        lease: Lease,
        accounts: Accounts,
        metrics: GatewayMetrics,
    ) -> None:
        self._completion, self._reservation, self._lease = completion, reservation, lease
        self._accounts, self._metrics = accounts, metrics
        self._version = lease.replica.address.version or completion.model
        self._started = time.perf_counter()

    async def run(self) -> HttpResponse:
        """Send the request; return the response once its first byte is there.

        Raises:
            ExchangeError: when the replica fails before.
            SilenceError: when it is silent for too long.
            OddAnswerError: when its answer cannot be passed on.
        """
        completion = self._completion
        try:
            connection = await self._lease.send(completion.path, completion.body, completion.trace.engine_headers)
            response = await self._respond(connection)
        except InvalidResponseError as error:
            self._abandon()
            raise OddAnswerError(f"{self._url}: {error}") from None
        except SilentServerError as error:  # it may still be computing, and a retry elsewhere would be no faster
            self._abandon()
            raise SilenceError(f"{self._url}: {error}; ask for a stream, or for fewer tokens") from None
        except ExchangeError as error:
            self._lease.close()
            if isinstance(error, UnreachableError):
                self._lease.replica.mark_failed(error)
            raise
        except BaseException:  # usually a client that disconnected
            self._abandon()
            raise
        if not response.stream:
            self._lease.close()
        return response

    def _abandon(self) -> None:
        """End the request; the replica's possible work on it is charged."""
        self._lease.close()
        if self._lease.is_sent:
            self._settle(None)

    @property
    def _url(self) -> str:
        return self._lease.replica.address.url

    async def _respond(self, connection: HttpConnection) -> HttpResponse:
        if connection.status >= HTTPStatus.MULTIPLE_CHOICES:
            return await self._refuse(await _read_response(connection))
        if self._completion.is_stream and _may_be_stream(connection):
            return await self._open_stream(connection)
        response, opening = await _read_response(connection), AnswerOpening()
        opening.add(response.body)
        self._settle(_read_usage(self._completion, response.body), opening, is_whole=not self._completion.is_stream)
        await self._accounts.flush()
        if self._completion.is_stream:
            raise InvalidResponseError(f"it answers {response.headers['content-type'][:100]} in place of a stream")
        return response

    async def _open_stream(self, connection: HttpConnection) -> HttpResponse:
        reader = CompletionStream(connection, self._completion.options, self._completion.completions)
        events = await reader.read()
        self._lease.mark_started()
        return HttpResponse(b"", headers=dict(EVENT_STREAM), stream=self._relay(reader, events))

    async def _refuse(self, response: HttpResponse) -> HttpResponse:
        """Pass an engine's refusal on, unless another replica may answer.

        Raises:
            BusyError: when the replica cannot answer now.
            ExchangeError: when it fails its check too; otherwise its error is the request's, whatever its status.
        """
        if response.status in BUSY:
            raise BusyError(self._url, response)
        if response.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            await self._lease.replica.check()
            if not self._lease.replica.is_healthy:
                raise ExchangeError(f"{self._url} answers {response.status}")
        self._accounts.release(self._reservation)
        return response

    async def _relay(self, reader: CompletionStream, events: bytes) -> Stream:
        """Yield the events, settle their usage, and yield the end of the stream."""
        started = time.perf_counter()
        try:
            with suppress(ExchangeError):
                while events:
                    yield events
                    events = await reader.read()
            usage = check_usage(self._completion, reader.usage, reader.opening)
            self._metrics.count_stream(time.perf_counter() - started, usage)
            self._settle(reader.usage, reader.opening, is_whole=reader.is_done)
            await self._accounts.flush()
            yield LAST_EVENT if reader.is_done else self._interrupt()
        finally:  # also when the client disconnects
            self._lease.close()
            self._settle(reader.usage, reader.opening, is_whole=reader.is_done)

    def _interrupt(self) -> bytes:
        log.warning("%s has ended a stream early", self._url, extra={"fields": self._completion.trace.answer_headers})
        self._metrics.interruptions.inc()
        return encode_interruption()

    def _settle(
        self, usage: TokenUsage | None, opening: AnswerOpening | None = None, *, is_whole: bool = False
    ) -> None:
        usage = check_usage(self._completion, usage, opening)
        is_declined, seconds = opening is not None and opening.is_declined, time.perf_counter() - self._started
        ended = EndedRequest(self._completion, self._reservation, self._version, usage, is_whole, is_declined, seconds)
        self._accounts.settle(ended)


def check_usage(
    completion: CompletionRequest, usage: TokenUsage | None, opening: AnswerOpening | None
) -> TokenUsage | None:
    """Return what an engine has counted, or None for an impossible number of tokens."""
    most = completion.prompt_tokens + MAX_TEMPLATE_TOKENS
    least = opening.choices if opening and not completion.has_echo else 0  # an echo is not a completion
    if usage and 1 <= usage.prompt_tokens <= most and least <= usage.completion_tokens <= completion.limit:
        return usage
    return None


def _count_failures(errors: dict[EngineReplica, ExchangeError]) -> int:
    return sum(not isinstance(error, BusyError) for error in errors.values())


def _may_be_stream(connection: HttpConnection) -> bool:
    """Return whether a response may have events; some engines name no type."""
    return connection.headers.get("content-type", EVENTS).lower().startswith(EVENTS)


async def _read_response(connection: HttpConnection) -> HttpResponse:
    """Return a whole response with the headers that clients need."""
    headers = {"content-type": JSON} | connection.headers
    passed = {name: value for name, value in headers.items() if name in PASSED}
    return HttpResponse(await connection.read_all(), connection.status, passed)


def _read_usage(completion: CompletionRequest, body: bytes) -> TokenUsage | None:
    try:
        if completion.path != EMBEDDINGS:
            return msgspec.json.decode(body, type=CompletionBody).usage
        usage = msgspec.json.decode(body, type=EmbeddingBody).usage
    except DECODE_ERRORS:
        return None
    return TokenUsage(usage.prompt_tokens, 0) if usage else None
