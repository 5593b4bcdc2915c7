"""Requests at scripted replicas: what is repeated, and what is charged."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from nightshift.http.messages import HttpResponse
from nightshift.http.sse import MAX_EVENT
from nightshift_llm.gateway.completions import CHAT, MAX_TEMPLATE_TOKENS, TEMPLATE_TOKENS, parse_completion
from nightshift_llm.gateway.errors import BadGatewayError, OddAnswerError, SilenceError, render_refusal
from nightshift_llm.gateway.fleet import Address, EngineReplica, Fleet, ModelEntry
from nightshift_llm.gateway.forwarding import JSON, Accounts, Forwarder
from nightshift_llm.gateway.keys import ApiKey
from nightshift_llm.gateway.ledger import Ledger
from nightshift_llm.gateway.metrics import GatewayMetrics
from nightshift_llm.gateway.prices import Prices
from nightshift_llm.gateway.tracing import RequestTrace
from nightshift_testkit.engines.simulated import MODEL
from nightshift_testkit.processes import SECONDS

KEY = ApiKey("team", "0" * 64)
BODY = json.dumps({"model": MODEL, "messages": [{"content": "hello"}], "max_tokens": 7}).encode()
IN_FULL = len(BODY) + TEMPLATE_TOKENS + 7
STREAM = json.dumps(json.loads(BODY) | {"stream": True}).encode()
STREAM_IN_FULL = len(STREAM) + TEMPLATE_TOKENS + 7
WORD = b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n'


def respond(body: bytes, status: int = 200, **headers: str) -> bytes:
    """A response with headers, whose names have underscores for hyphens."""
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} \r\n{lines}content-length: {len(body)}\r\n\r\n".encode() + body


class ScriptedReplicas:
    """Replicas, on one port, that answer with the next of some bodies or responses; silent after the last one.

    Health checks find them sound, unless `is_dead`.
    """

    def __init__(self, *bodies: bytes, status: int = 200) -> None:
        self.bodies, self.status, self.requests = list(bodies), status, 0
        self.connections, self.is_dead, self.closes, self.heads, self.body = 0, False, False, list[bytes](), BODY
        self.ledger = Ledger()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with suppress(asyncio.IncompleteReadError, ConnectionResetError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
                await reader.readexactly(length)
                if head.startswith(b"GET"):
                    writer.write(respond(b'{"data": [{"id": "%b"}]}' % MODEL.encode(), 503 if self.is_dead else 200))
                    continue
                self.requests += 1
                self.heads.append(head)
                if self.bodies:
                    body = self.bodies.pop(0)
                    writer.write(body if body.startswith(b"HTTP/") else respond(body, self.status))
                    if not self.bodies and self.closes:
                        break
        writer.close()
        self.connections -= 1

    def run(self, work: Callable[[list[EngineReplica]], Awaitable[Any]], count: int = 1) -> Any:
        """Do work with so many replicas; `complete` sends a request to one of them."""

        async def run() -> Any:
            async with await asyncio.start_server(self.serve, "127.0.0.1", 0) as server:
                port, fleet = server.sockets[0].getsockname()[1], Fleet(list)
                for number in range(count):
                    address = Address(f"http://127.0.0.1:{port}", str(number))
                    fleet.replicas[address] = replica = EngineReplica(address)
                    replica.models, replica.is_healthy = {MODEL: ModelEntry(MODEL)}, True
                metrics = GatewayMetrics(fleet, self.ledger)
                self.forwarder = Forwarder(fleet, Accounts(self.ledger, metrics, Prices(), None), metrics)
                try:
                    async with asyncio.timeout(SECONDS):
                        return await work(list(fleet.replicas.values()))
                finally:
                    fleet.close()
                    while self.connections:
                        await asyncio.sleep(0.01)

        return asyncio.run(run())

    async def complete(self) -> HttpResponse:
        return await self.forwarder.complete(KEY, parse_completion(CHAT, self.body))

    async def stream(self) -> bytes:
        """Complete a request for a stream, and read it to its end."""
        self.body = STREAM
        response = await self.complete()
        assert response.stream
        return b"".join([piece async for piece in response.stream])

    async def cancel(self, requests: int) -> None:
        """Have a client leave once so many requests have come."""
        asking = asyncio.create_task(self.complete())
        while self.requests < requests:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.01)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking

    def charges(self) -> list[tuple[int, int, int]]:
        return [(row.prompt_tokens, row.completion_tokens, row.estimated_tokens) for row in self.ledger.report()]


def encode_usage(prompt: int, completion: int) -> bytes:
    return json.dumps({"usage": {"prompt_tokens": prompt, "completion_tokens": completion}}).encode()


def test_a_silent_replica_gets_its_request_once_is_charged_in_full_and_stays() -> None:
    scripted = ScriptedReplicas()

    async def work(replicas: list[EngineReplica]) -> None:
        asking = asyncio.create_task(scripted.complete())
        while not asking.done():
            if scripted.requests:
                [replica.pool.end_silent(0) for replica in replicas]
            await asyncio.sleep(0.01)
        with pytest.raises(SilenceError, match="nothing has come for too long; ask for a stream, or for fewer tokens"):
            await asking
        assert [(replica.is_healthy, replica.running) for replica in replicas] == [(True, 0)] * 3

    scripted.run(work, count=3)
    assert (scripted.requests, scripted.charges()) == (1, [(0, 0, IN_FULL)])


class EndlessPool:
    """Connects forever."""

    async def acquire(self) -> None:
        await asyncio.Event().wait()

    def close(self) -> None:
        """Nothing is open."""


def test_a_client_that_leaves_is_charged_only_once_a_replica_has_its_request() -> None:
    scripted = ScriptedReplicas()

    async def work(replicas: list[EngineReplica]) -> None:
        pool, replicas[0].pool = replicas[0].pool, EndlessPool()
        await scripted.cancel(0)
        assert (replicas[0].running, scripted.charges()) == (0, [])
        replicas[0].pool = pool
        await scripted.cancel(1)

    scripted.run(work)
    assert scripted.charges() == [(0, 0, IN_FULL)]


@pytest.mark.parametrize(
    ("body", "status", "charge"),
    [
        (encode_usage(3, 2), 200, (3, 2, 0)),
        (encode_usage(3, 2), 201, (3, 2, 0)),
        (b'{"usage": {}}', 200, (0, 0, IN_FULL)),
        (b'{"usage": {"prompt_tokens": 3}}', 200, (0, 0, IN_FULL)),
        (encode_usage(-3, 2), 200, (0, 0, IN_FULL)),
        (encode_usage(2**63, 2), 200, (0, 0, IN_FULL)),
        (encode_usage(2**53, 2), 200, (0, 0, IN_FULL)),
        (encode_usage(len(BODY) + MAX_TEMPLATE_TOKENS, 7), 200, (len(BODY) + MAX_TEMPLATE_TOKENS, 7, 0)),
        (encode_usage(len(BODY) + MAX_TEMPLATE_TOKENS + 1, 7), 200, (0, 0, IN_FULL)),
        (encode_usage(3, 8), 200, (0, 0, IN_FULL)),
        (encode_usage(0, 0), 200, (0, 0, IN_FULL)),
        (encode_usage(0, 2), 200, (0, 0, IN_FULL)),
        (encode_usage(3, 0), 200, (3, 0, 0)),
        (encode_usage(3, 0)[:-1] + b', "choices": [{"message": {"content": "a"}}]}', 200, (0, 0, IN_FULL)),
        (b'{"usage": {"prompt_tokens": 3.5, "completion_tokens": 2}}', 200, (0, 0, IN_FULL)),
        (b'{"usage": {"prompt_tokens": NaN, "completion_tokens": 2}}', 200, (0, 0, IN_FULL)),
        (b'{"usage": {"prompt_tokens": 1e300, "completion_tokens": 2}}', 200, (0, 0, IN_FULL)),
        (b'{"usage": {"\xff": 1}}', 200, (0, 0, IN_FULL)),
        (b"[" * 100_000, 200, (0, 0, IN_FULL)),
    ],
    ids=range(19),
)
def test_a_response_is_charged_what_it_says_or_in_full(body, status, charge) -> None:
    scripted = ScriptedReplicas(body, status=status)

    async def work(replicas: list[EngineReplica]) -> None:
        assert (await scripted.complete()).body == body
        assert replicas[0].running == 0

    scripted.run(work)
    assert scripted.charges() == [charge]


def test_the_longest_template_so_far_is_reserved() -> None:
    scripted = ScriptedReplicas(encode_usage(2000, 1), encode_usage(3, 1))

    async def work(_: list[EngineReplica]) -> None:
        for _ in range(2):
            await scripted.complete()
        await scripted.cancel(3)

    scripted.run(work)
    assert scripted.charges() == [(2003, 2, 2000 + 7)]


def test_a_count_that_cannot_be_raises_no_later_reservation() -> None:
    scripted = ScriptedReplicas(encode_usage(2**53, 1), encode_usage(3, 1))

    async def work(_: list[EngineReplica]) -> None:
        for _ in range(2):
            await scripted.complete()
        await scripted.cancel(3)

    scripted.run(work)
    assert scripted.charges() == [(3, 1, 2 * IN_FULL)]


def test_a_bug_after_the_settlement_holds_no_replica_and_charges_once() -> None:
    class FailingLedger(Ledger):
        async def flush(self) -> None:
            raise ZeroDivisionError

    scripted = ScriptedReplicas(encode_usage(3, 2))
    scripted.ledger = FailingLedger()

    async def work(replicas: list[EngineReplica]) -> None:
        with pytest.raises(ZeroDivisionError):
            await scripted.complete()
        assert replicas[0].running == 0

    scripted.run(work)
    assert scripted.charges() == [(3, 2, 0)]


@pytest.mark.parametrize(
    ("answer", "seen", "charge"),
    [
        (respond(WORD), b"stream_interrupted", (0, 0, STREAM_IN_FULL)),
        (respond(WORD + b"data: " + b"x" * MAX_EVENT), b"stream_interrupted", (0, 0, STREAM_IN_FULL)),
        (respond(WORD + b"data: [DONE]\n\n")[:-10], b"stream_interrupted", (0, 0, STREAM_IN_FULL)),
        (respond(encode_usage(3, 2), content_type=JSON), "application/json in place of a stream", (3, 2, 0)),
        (respond(b"<html>", content_type="text/html"), "text/html in place of a stream", (0, 0, STREAM_IN_FULL)),
        (respond(encode_usage(3, 2)), 'no stream of events: {"usage"', (0, 0, STREAM_IN_FULL)),
        (respond(b"<html>\n\n<body>"), "no stream of events: <html>", (0, 0, STREAM_IN_FULL)),
        (respond(b"x" * (MAX_EVENT + 1)), "an event has more than 16777216 bytes", (0, 0, STREAM_IN_FULL)),
    ],
    ids=range(8),
)
def test_an_odd_stream_is_charged_once_never_repeated_and_says_nothing_of_its_replica(answer, seen, charge) -> None:
    scripted = ScriptedReplicas(answer)
    scripted.closes = True

    async def work(replicas: list[EngineReplica]) -> None:
        if isinstance(seen, bytes):
            assert seen in await scripted.stream()
        else:
            with pytest.raises(OddAnswerError, match=seen) as error:
                await scripted.stream()
            assert render_refusal(error.value).headers["x-should-retry"] == "false"
        assert [(replica.is_healthy, replica.running) for replica in replicas] == [(True, 0)] * 2

    scripted.run(work, count=2)
    assert (scripted.requests, scripted.charges()) == (1, [charge])


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_request_that_finds_all_replicas_busy_ends_with_the_answer_of_the_one_that_is_free_first(status) -> None:
    waits = ["30", "7", "Fri, 27 Nov 2026 08:00:00 GMT", "9"]
    busy = [
        respond(b"busy for %b" % wait.encode(), status, retry_after=wait, content_type="text/plain") for wait in waits
    ]
    scripted = ScriptedReplicas(*busy, *busy[:3], encode_usage(3, 2))

    async def work(replicas: list[EngineReplica]) -> None:
        response = await scripted.complete()
        assert (response.status, response.body) == (status, b"busy for 7")
        assert response.headers == {"retry-after": "7", "content-type": "text/plain"}
        assert scripted.charges() == []
        assert (await scripted.complete()).status == 200
        assert [(replica.is_healthy, replica.running) for replica in replicas] == [(True, 0)] * 4

    scripted.run(work, count=4)
    assert scripted.charges() == [(3, 2, 0)]


@pytest.mark.parametrize("status", [400, 404, 422, 500, 501])
def test_an_engines_reason_passes_and_its_request_is_not_repeated(status) -> None:
    reason = b'{"error": {"message": "Missing \'role\' in message"}}'
    scripted = ScriptedReplicas(respond(reason, status))

    async def work(replicas: list[EngineReplica]) -> None:
        response = await scripted.complete()
        assert (response.status, response.body) == (status, reason)
        assert all(replica.is_healthy for replica in replicas)

    scripted.run(work, count=3)
    assert (scripted.requests, scripted.charges()) == (1, [])


def test_a_request_whose_replica_fails_it_and_its_check_too_is_repeated_elsewhere() -> None:
    scripted = ScriptedReplicas(respond(b"dead", 500), encode_usage(3, 2))
    scripted.is_dead = True

    async def work(replicas: list[EngineReplica]) -> None:
        assert (await scripted.complete()).status == 200
        assert [replica.is_healthy for replica in replicas] == [False, True]

    scripted.run(work, count=2)


def test_a_connection_that_breaks_is_repeated_elsewhere_and_marks_no_replica() -> None:
    scripted = ScriptedReplicas(respond(encode_usage(3, 2))[:-5])
    scripted.closes = True

    async def work(replicas: list[EngineReplica]) -> None:
        with pytest.raises(BadGatewayError, match="tried: 3, the last: the connection has ended"):
            await scripted.complete()
        assert all(replica.is_healthy for replica in replicas)

    async def serve_half(*streams: Any) -> None:
        scripted.bodies = [respond(encode_usage(3, 2))[:-5]]
        await serve(*streams)

    serve, scripted.serve = scripted.serve, serve_half
    scripted.run(work, count=4)
    assert (scripted.requests, scripted.charges()) == (3, [])


def test_the_ids_of_a_request_reach_the_engine() -> None:
    scripted = ScriptedReplicas(encode_usage(3, 2))
    trace = RequestTrace("mine", f"00-{'1' * 32}-{'2' * 16}-01", "vendor=1")

    async def work(_: list[EngineReplica]) -> None:
        await scripted.forwarder.complete(KEY, parse_completion(CHAT, BODY, trace))

    scripted.run(work)
    assert all(f"{name}: {value}\r\n".encode() in scripted.heads[0] for name, value in trace.engine_headers.items())
    assert len(trace.engine_headers) == 3


CHUNK = b'data: {"choices": [{"index": %d, "delta": {"content": "a"}}], "usage": %b}\n\n'
TOTAL = b'data: {"choices": [], "usage": %b}\n\ndata: [DONE]\n\n'


@pytest.mark.parametrize("is_whole", [True, False])
def test_several_completions_are_charged_by_their_total_or_in_full(is_whole) -> None:
    usage = json.dumps({"prompt_tokens": 3, "completion_tokens": 1}).encode()
    total = TOTAL % json.dumps({"prompt_tokens": 3, "completion_tokens": 20}).encode()
    scripted = ScriptedReplicas(CHUNK % (0, usage) + CHUNK % (1, usage) + (total if is_whole else b""))
    body = json.dumps(json.loads(STREAM) | {"n": 3}).encode()

    async def work(_: list[EngineReplica]) -> None:
        response = await scripted.forwarder.complete(KEY, parse_completion(CHAT, body))
        assert [piece async for piece in response.stream]

    scripted.run(work)
    assert scripted.charges() == [(3, 20, 0) if is_whole else (0, 0, len(body) + TEMPLATE_TOKENS + 3 * 7)]
