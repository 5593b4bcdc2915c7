"""A request at the replicas: attempts until the first byte, then its stream, and the settlement of its tokens.

An attempt is repeated at another replica as long as the client has received nothing. After the first byte of a stream
nothing is repeated: a stream that breaks ends with an error event, and without `[DONE]`.
"""

import asyncio
import time
from contextlib import suppress
from http import HTTPStatus

import msgspec

from nightshift.gateway.completions import CompletionRequest
from nightshift.gateway.errors import BadGatewayError
from nightshift.gateway.fleet import EngineReplica, Fleet, Lease
from nightshift.gateway.keys import ApiKey
from nightshift.gateway.ledger import Ledger, Reservation, TokenUsage
from nightshift.gateway.metrics import GatewayMetrics
from nightshift.gateway.sse import DONE, SseReader, encode_interruption
from nightshift.gateway.upstream import UpstreamConnection, UpstreamError
from nightshift.serving.messages import HttpResponse, Stream
from nightshift.step import log

MAX_ATTEMPTS = 3  # a request that breaks replicas must not break all
JSON = {"content-type": "application/json"}
EVENT_STREAM = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache"}


class CompletionBody(msgspec.Struct):
    """What the gateway reads of an answer that is no stream."""

    usage: TokenUsage | None = None


class RefusedStatusError(UpstreamError):
    """A replica that answers, but not this request."""


class Forwarder:
    """Sends requests to the replicas of a fleet, within the budgets of their keys."""

    def __init__(self, fleet: Fleet, ledger: Ledger, metrics: GatewayMetrics) -> None:
        self._fleet, self._ledger, self._metrics = fleet, ledger, metrics

    async def complete(self, key: ApiKey, completion: CompletionRequest) -> HttpResponse:
        """Answer a request; a stream is settled at its end.

        Raises:
            GatewayError: when it is refused, or all attempts have failed.
        """
        self._fleet.find_candidates(completion.model)  # an unknown model reserves nothing
        reservation = await self._ledger.reserve(key, completion.tokens)
        try:
            return await self._attempt(completion, reservation)
        except Exception:
            self._ledger.release(reservation)
            raise

    async def _attempt(self, completion: CompletionRequest, reservation: Reservation) -> HttpResponse:
        """Try replicas until one answers; each is tried once."""
        started, tried = time.perf_counter(), set[EngineReplica]()
        while True:
            lease = self._fleet.lease(completion.model, completion.prefixes, tried)
            exchange = Exchange(completion, reservation, lease, self._ledger, self._metrics)
            try:
                response = await exchange.run()
            except UpstreamError as error:
                tried.add(lease.replica)
                if len(tried) == MAX_ATTEMPTS:
                    raise BadGatewayError(f"{MAX_ATTEMPTS} replicas have failed, at last: {error}") from None
                self._metrics.retries.inc()
            else:
                self._metrics.count_first_byte(lease.prompt_blocks, lease.cached_blocks, time.perf_counter() - started)
                return response


class Exchange:
    """One attempt of a request at one replica."""

    def __init__(
        self,
        completion: CompletionRequest,
        reservation: Reservation,
        lease: Lease,
        ledger: Ledger,
        metrics: GatewayMetrics,
    ) -> None:
        self._completion, self._reservation, self._lease = completion, reservation, lease
        self._ledger, self._metrics = ledger, metrics
        self._version = lease.replica.address.version or completion.model

    async def run(self) -> HttpResponse:
        """Send the request; return the response once its first byte is there.

        Raises:
            UpstreamError: when the replica fails before.
        """
        try:
            response = await self._respond(await self._lease.send(self._completion.path, self._completion.body))
        except UpstreamError as error:
            self._lease.close()
            if not isinstance(error, RefusedStatusError):
                self._lease.replica.mark_failed(error)
            raise
        except asyncio.CancelledError:  # the client has left
            self._lease.close()
            self._settle(None)
            raise
        if not response.stream:
            self._lease.close()
        return response

    async def _respond(self, connection: UpstreamConnection) -> HttpResponse:
        if connection.status >= HTTPStatus.INTERNAL_SERVER_ERROR or connection.status == HTTPStatus.TOO_MANY_REQUESTS:
            raise RefusedStatusError(f"{self._lease.replica.address.url} answers {connection.status}")
        if self._completion.is_stream and connection.status == HTTPStatus.OK:
            reader = SseReader(connection, self._completion.options)
            events = await reader.read()
            self._lease.mark_started()
            return HttpResponse(b"", headers=EVENT_STREAM, stream=self._relay(reader, events))
        body = await connection.read_all()
        if connection.status == HTTPStatus.OK:
            self._settle(_read_usage(body))
            await self._ledger.flush()
        else:
            self._ledger.release(self._reservation)
        return HttpResponse(body, connection.status, JSON)

    async def _relay(self, reader: SseReader, events: bytes) -> Stream:
        """Yield the events, settle what they have used, and yield how the stream has ended."""
        try:
            with suppress(UpstreamError):
                while events:
                    yield events
                    events = await reader.read()
            self._settle(reader.usage)
            await self._ledger.flush()
            yield DONE if reader.is_done else self._interrupt()
        finally:  # also when the client leaves
            self._lease.close()
            self._settle(reader.usage)

    def _interrupt(self) -> bytes:
        url = self._lease.replica.address.url
        log.warning("%s has failed in the middle of a stream", url)
        self._lease.replica.mark_failed("a stream broke")
        self._metrics.interruptions.inc()
        return encode_interruption()

    def _settle(self, usage: TokenUsage | None) -> None:
        if not self._reservation.is_settled:
            self._ledger.settle(self._reservation, self._version, usage)
            self._metrics.count_tokens(self._reservation, usage)


def _read_usage(body: bytes) -> TokenUsage | None:
    try:
        return msgspec.json.decode(body, type=CompletionBody).usage
    except msgspec.DecodeError:
        return None
