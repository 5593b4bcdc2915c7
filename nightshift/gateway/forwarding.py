"""A request at the replicas: attempts until the first byte, then its stream, and the settlement of its tokens.

An attempt is repeated at another replica as long as the client has received nothing. After the first byte of a stream
nothing is repeated: a stream that breaks ends with an error event, and without `[DONE]`.
"""

import time
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus

import msgspec

from nightshift.gateway.answers import AnswerOpening
from nightshift.gateway.budgets import Amount
from nightshift.gateway.completions import MAX_TEMPLATE_TOKENS, TEMPLATE_TOKENS, CompletionRequest
from nightshift.gateway.errors import DECODE_ERRORS, BadGatewayError, NoReplicaError, SilenceError
from nightshift.gateway.fleet import EngineReplica, Fleet, Lease
from nightshift.gateway.keys import ApiKey
from nightshift.gateway.ledger import NOTHING, Ledger, Reservation, TokenUsage, measure_cost
from nightshift.gateway.metrics import GatewayMetrics
from nightshift.gateway.prices import Prices
from nightshift.gateway.request_log import INTERRUPTED, RequestLog, RequestRecord, now, sketch_prompt
from nightshift.gateway.sse import DONE, SseReader, encode_interruption
from nightshift.gateway.upstream import SilentReplicaError, UpstreamConnection, UpstreamError
from nightshift.serving.messages import HttpResponse, Stream
from nightshift.step import log

MAX_ATTEMPTS = 3  # a request that breaks replicas must not break all
JSON = {"content-type": "application/json"}
EVENT_STREAM = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}


class CompletionBody(msgspec.Struct):
    """The fields of a non-streamed answer that the gateway reads."""

    usage: TokenUsage | None = None


class RefusedStatusError(UpstreamError):
    """A healthy replica that refuses this request."""


@dataclass(frozen=True)
class EndedRequest:
    """A request at its end.

    Attributes:
        completion: that was asked for.
        reservation: of its tokens.
        version: of the model that has answered.
        usage: tokens that the engine has counted; None: it has not, or more than there can be.
        is_whole: whether the answer has come to its end.
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
        """Try replicas until one responds, each once."""
        started, errors = time.perf_counter(), dict[EngineReplica, UpstreamError]()
        while len(errors) < MAX_ATTEMPTS and (lease := self._lease(completion, errors)):
            if errors:
                self._metrics.retries.inc()
            exchange = Exchange(completion, reservation, lease, self._accounts, self._metrics)
            try:
                response = await exchange.run()
            except UpstreamError as error:
                errors[lease.replica] = error
            else:
                self._metrics.count_prompt(lease.prompt_blocks, lease.cached_blocks)
                seconds = time.perf_counter() - started
                self._metrics.count_first_byte(seconds, is_stream=response.stream is not None)
                return response
        raise BadGatewayError(f"no replica has answered; tried: {len(errors)}, the last: {list(errors.values())[-1]}")

    def _lease(self, completion: CompletionRequest, errors: dict[EngineReplica, UpstreamError]) -> Lease | None:
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
            UpstreamError: when the replica fails before.
            SilenceError: when it is silent for too long.
        """
        try:
            response = await self._respond(await self._lease.send(self._completion.path, self._completion.body))
        except SilentReplicaError as error:  # it may still be computing, and a retry elsewhere would be no faster
            self._abandon()
            message = f"{self._lease.replica.address.url}: {error}; ask for a stream, or for fewer tokens"
            raise SilenceError(message) from None
        except UpstreamError as error:
            self._lease.close()
            if not isinstance(error, RefusedStatusError):
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

    async def _respond(self, connection: UpstreamConnection) -> HttpResponse:
        if connection.status >= HTTPStatus.INTERNAL_SERVER_ERROR or connection.status == HTTPStatus.TOO_MANY_REQUESTS:
            raise RefusedStatusError(f"{self._lease.replica.address.url} answers {connection.status}")
        is_success = connection.status < HTTPStatus.MULTIPLE_CHOICES
        if self._completion.is_stream and is_success:
            reader = SseReader(connection, self._completion.options)
            events = await reader.read()
            self._lease.mark_started()
            return HttpResponse(b"", headers=EVENT_STREAM, stream=self._relay(reader, events))
        body = await connection.read_all()
        if is_success:
            opening = AnswerOpening()
            opening.add(body)
            self._settle(_read_usage(body), opening, is_whole=True)
            await self._accounts.flush()
        else:
            self._accounts.release(self._reservation)
        return HttpResponse(body, connection.status, JSON)

    async def _relay(self, reader: SseReader, events: bytes) -> Stream:
        """Yield the events, settle their usage, and yield the end of the stream."""
        started = time.perf_counter()
        try:
            with suppress(UpstreamError):
                while events:
                    yield events
                    events = await reader.read()
            self._metrics.count_stream(time.perf_counter() - started, check_usage(self._completion, reader.usage))
            self._settle(reader.usage, reader.opening, is_whole=reader.is_done)
            await self._accounts.flush()
            yield DONE if reader.is_done else self._interrupt()
        finally:  # also when the client disconnects
            self._lease.close()
            self._settle(reader.usage, reader.opening, is_whole=reader.is_done)

    def _interrupt(self) -> bytes:
        url = self._lease.replica.address.url
        log.warning("%s has failed in the middle of a stream", url)
        self._lease.replica.mark_failed("a stream broke")
        self._metrics.interruptions.inc()
        return encode_interruption()

    def _settle(
        self, usage: TokenUsage | None, opening: AnswerOpening | None = None, *, is_whole: bool = False
    ) -> None:
        usage = check_usage(self._completion, usage)
        is_declined, seconds = opening is not None and opening.is_declined, time.perf_counter() - self._started
        ended = EndedRequest(self._completion, self._reservation, self._version, usage, is_whole, is_declined, seconds)
        self._accounts.settle(ended)


def check_usage(completion: CompletionRequest, usage: TokenUsage | None) -> TokenUsage | None:
    """Return what an engine has counted, or None where the request cannot have had so many tokens."""
    most = completion.prompt_tokens + MAX_TEMPLATE_TOKENS
    if usage and usage.prompt_tokens <= most and usage.completion_tokens <= completion.limit:
        return usage
    return None


def _read_usage(body: bytes) -> TokenUsage | None:
    try:
        return msgspec.json.decode(body, type=CompletionBody).usage
    except DECODE_ERRORS:
        return None
