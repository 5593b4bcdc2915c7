"""Requests at scripted replicas: what is repeated, and what is charged."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from nightshift.gateway.completions import CHAT, MAX_TEMPLATE_TOKENS, TEMPLATE_TOKENS, parse_completion
from nightshift.gateway.errors import SilenceError
from nightshift.gateway.fleet import Address, EngineReplica, Fleet
from nightshift.gateway.forwarding import Accounts, Forwarder
from nightshift.gateway.keys import ApiKey
from nightshift.gateway.ledger import Ledger
from nightshift.gateway.metrics import GatewayMetrics
from nightshift.gateway.prices import Prices
from nightshift.serving.messages import HttpResponse
from tests.nightshift.gateway.simulated import MODEL

KEY = ApiKey("team", "0" * 64)
BODY = json.dumps({"model": MODEL, "messages": [{"content": "hello"}], "max_tokens": 7}).encode()
IN_FULL = len(BODY) + TEMPLATE_TOKENS + 7


class ScriptedReplicas:
    """Replicas, on one port, that answer with the next of some bodies, and are silent after the last one."""

    def __init__(self, *bodies: bytes, status: int = 200) -> None:
        self.bodies, self.status, self.requests = list(bodies), status, 0
        self.connections = 0
        self.ledger = Ledger()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with suppress(asyncio.IncompleteReadError, ConnectionResetError):
            while await reader.readuntil(b'"max_tokens":7}'):
                self.requests += 1
                if self.bodies:
                    body = self.bodies.pop(0)
                    writer.write(b"HTTP/1.1 %d \r\ncontent-length: %d\r\n\r\n%b" % (self.status, len(body), body))
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
                    replica.models, replica.is_healthy = frozenset({MODEL}), True
                metrics = GatewayMetrics(fleet)
                self.forwarder = Forwarder(fleet, Accounts(self.ledger, metrics, Prices(), None), metrics)
                try:
                    return await work(list(fleet.replicas.values()))
                finally:
                    fleet.close()
                    while self.connections:
                        await asyncio.sleep(0.01)

        return asyncio.run(run())

    async def complete(self) -> HttpResponse:
        return await self.forwarder.complete(KEY, parse_completion(CHAT, BODY))

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
        (b'{"usage": {"prompt_tokens": 3.5, "completion_tokens": 2}}', 200, (0, 0, IN_FULL)),
        (b'{"usage": {"prompt_tokens": NaN, "completion_tokens": 2}}', 200, (0, 0, IN_FULL)),
        (b'{"usage": {"prompt_tokens": 1e300, "completion_tokens": 2}}', 200, (0, 0, IN_FULL)),
        (b'{"usage": {"\xff": 1}}', 200, (0, 0, IN_FULL)),
        (b"[" * 100_000, 200, (0, 0, IN_FULL)),
    ],
    ids=range(15),
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
