"""The gateway's connections to a replica, over sockets."""

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from nightshift.http.client import (
    ExchangeError,
    InvalidResponseError,
    ServerAddress,
    SilentServerError,
    UnreachableError,
    encode_request,
)
from nightshift.http.pool import BUFFER, MAX_RESPONSE, ConnectionPool
from nightshift_llm.gateway.fleet import Address, EngineReplica
from nightshift_testkit.cluster.access import Certificate

REQUEST = encode_request("POST", "/", "host", b"{}")
HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n"


class Replica:
    """Answers each request with the next of some bytes; closes the connection when there are no more."""

    def __init__(self, *answers: bytes) -> None:
        self.answers, self.connections = list(answers), 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        while self.answers and await reader.readuntil(b"{}"):
            writer.write(self.answers.pop(0))
        writer.close()


def exchange(replica: Replica, work: Callable[[ConnectionPool], Awaitable[object]], idle_seconds: float = 9) -> object:
    """Do work with a pool of connections to a replica."""

    async def run() -> object:
        async with await asyncio.start_server(replica.serve, "127.0.0.1", 0) as server:
            pool = ConnectionPool(ServerAddress(*server.sockets[0].getsockname()), idle_seconds)
            try:
                return await work(pool)
            finally:
                pool.close()

    return asyncio.run(run())


async def ask(pool: ConnectionPool) -> tuple[int, bytes]:
    connection = await pool.acquire()
    try:
        await connection.send(REQUEST)
        return connection.status, await connection.read_all()
    finally:
        pool.release(connection)


def test_a_connection_is_kept_after_a_complete_response_and_interim_ones_are_skipped() -> None:
    replica = Replica(HEAD % 3 + b"one", b"HTTP/1.1 100 Continue\r\n\r\n" + HEAD % 3 + b"two")

    async def work(pool: ConnectionPool) -> list[tuple[int, bytes]]:
        return [await ask(pool), await ask(pool)]

    assert exchange(replica, work) == [(200, b"one"), (200, b"two")]
    assert replica.connections == 1


def test_a_connection_that_was_idle_for_long_is_replaced() -> None:
    replica = Replica(HEAD % 3 + b"one", HEAD % 3 + b"two")

    async def work(pool: ConnectionPool) -> list[tuple[int, bytes]]:
        return [await ask(pool), await ask(pool)]

    exchange(replica, work, idle_seconds=0)
    assert replica.connections == 2


@pytest.mark.parametrize("answer", [b"", HEAD % 9 + b"part", b"HTTP/1.1 200 OK\r\n\r\n", b"no HTTP\r\n\r\n"])
def test_a_response_without_its_end_is_an_error(answer) -> None:
    with pytest.raises(ExchangeError):
        exchange(Replica(answer), ask)


def test_a_large_response_waits_in_the_replica_and_arrives_whole() -> None:
    body = bytes(range(256)) * (20 * BUFFER // 256)

    assert exchange(Replica(HEAD % len(body) + body), ask) == (200, body)


def test_a_response_that_is_silent_for_long_is_ended() -> None:
    async def work(pool: ConnectionPool) -> None:
        asking = asyncio.create_task(ask(pool))
        while not pool.in_use:
            await asyncio.sleep(0.01)
        pool.end_silent(60)
        assert not asking.done()
        while not asking.done():
            pool.end_silent(0)
            await asyncio.sleep(0.01)
        await asking

    with pytest.raises(SilentServerError):
        exchange(Replica(HEAD % 9 + b"part", b"never sent"), work)


def test_where_nothing_listens_is_an_error_that_names_the_address() -> None:
    with pytest.raises(ExchangeError, match=r"no connection to 127\.0\.0\.1:1: "):
        asyncio.run(ask(ConnectionPool(ServerAddress("127.0.0.1", 1))))


@pytest.mark.slow
def test_a_replica_behind_https_is_reached_where_its_certificate_is_trusted(tmp_path: Path) -> None:
    pair, replica = Certificate.create(tmp_path), Replica(HEAD % 3 + b"one")
    server_side = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server_side.load_cert_chain(pair.certificate, pair.key)

    async def run() -> None:
        async with await asyncio.start_server(replica.serve, "127.0.0.1", 0, ssl=server_side) as server:
            port = server.sockets[0].getsockname()[1]
            trusting = ConnectionPool(
                ServerAddress("127.0.0.1", port, ssl.create_default_context(cafile=pair.certificate))
            )
            assert await ask(trusting) == (200, b"one")
            trusting.close()
            strict = EngineReplica(Address(f"https://127.0.0.1:{port}")).pool
            with pytest.raises(
                UnreachableError, match=r"no connection to 127\.0\.0\.1:\d+: .*CERTIFICATE_VERIFY_FAILED"
            ):
                await ask(strict)

    asyncio.run(run())


def test_a_whole_answer_is_joined_once_and_has_a_limit() -> None:
    async def work(pool: ConnectionPool) -> float:
        started = time.process_time()
        with pytest.raises(InvalidResponseError, match=f"more than {MAX_RESPONSE} bytes"):
            await ask(pool)
        return time.process_time() - started

    assert exchange(Replica(HEAD % (MAX_RESPONSE + 1) + bytes(MAX_RESPONSE + 1)), work) < 10
