"""HTTP connections: real sockets to uvicorn with our protocol."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import uvicorn
from uvicorn.server import ServerState

from components.serving.connection import MOST_KNOWN, Connection
from components.serving.messages import Receive, Request, Response, Scope, Send
from tests.processes import SECONDS, wait_until

TURNS = 200  # of the event loop, in which all that has come is answered


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the path and the body; `/slow`, `/long` and the body `slow` later than others."""
    request = Request(scope, receive, 100_000)
    body = await request.body()
    await asyncio.sleep(0.05 if body == b"slow" else {"/slow": 0.05, "/long": 1.0}.get(request.head.path, 0))
    if request.head.path == "/broken":
        raise ValueError(request.head.path)
    await Response(request.head.path.encode() + b" " + body).send(send, "some-id")


@contextmanager
def serving(**options: Any) -> Iterator[int]:
    """Serve it in a thread; yield the port."""
    server = uvicorn.Server(uvicorn.Config(echo, http=Connection, log_config=None, lifespan="off", **options))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        wait_until(lambda: server.started, "the server has started", SECONDS)
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving() as found:
        yield found


def said(port: int, *parts: bytes) -> bytes:
    """Send the parts one by one; return all that comes until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as client:
        for part in parts:
            client.sendall(part)
        return b"".join(iter(lambda: client.recv(65536), b""))


def asked(path: str, *, method: str = "POST", last: bool = False, body: bytes = b"") -> bytes:
    end = "Connection: close\r\n" if last else ""
    return f"{method} {path} HTTP/1.1\r\nHost: h\r\nContent-Length: {len(body)}\r\n{end}\r\n".encode() + body


def test_an_answer_has_a_date_its_length_and_the_headers_of_the_application(port) -> None:
    head, _, body = said(port, asked("/a?b=c", body=b"hello", last=True)).partition(b"\r\n\r\n")
    status, *headers = head.split(b"\r\n")
    assert status == b"HTTP/1.1 200 OK"
    assert [line.split(b":")[0] for line in headers[:2]] == [b"date", b"server"]
    assert headers[2:] == [
        b"content-type: application/json", b"content-length: 8", b"x-request-id: some-id", b"connection: close",
    ]  # fmt: skip
    assert body == b"/a hello"


def test_requests_that_come_at_once_are_answered_in_their_order(port) -> None:
    found = said(port, asked("/slow") + asked("/b", body=b"two") + asked("/c", body=b"three", last=True))
    assert [found.index(each) for each in (b"/slow ", b"/b two", b"/c three")] == sorted(
        found.index(each) for each in (b"/slow ", b"/b two", b"/c three")
    )
    assert found.count(b"HTTP/1.1 200 OK") == 3


def test_a_body_may_come_in_parts(port) -> None:
    head, body = asked("/a", body=b"x" * 70_000, last=True).split(b"\r\n\r\n")
    found = said(port, head[:20], head[20:] + b"\r\n\r\n", body[:10], body[10:])
    assert found.endswith(b"/a " + b"x" * 70_000)


def test_a_client_that_asks_whether_to_go_on_is_told_so(port) -> None:
    asks = asked("/a", body=b"", last=True).replace(b"Content-Length: 0", b"Content-Length: 2\r\nExpect: 100-continue")
    with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as client:
        client.sendall(asks)
        assert client.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"ok")
        assert b"".join(iter(lambda: client.recv(65536), b"")).endswith(b"/a ok")


def test_head_is_answered_with_the_length_alone(port) -> None:
    found = said(port, asked("/a", method="HEAD", last=True))
    assert b"content-length: 3\r\n" in found
    assert found.endswith(b"\r\n\r\n")


def test_http_1_0_is_answered_and_closed(port) -> None:
    assert said(port, b"GET /a HTTP/1.0\r\n\r\n").endswith(b"connection: close\r\n\r\n/a ")


def test_what_is_not_http_gets_400_and_what_breaks_500(port) -> None:
    assert said(port, b"nonsense\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    assert said(port, asked("/broken")).startswith(b"HTTP/1.1 500 ")


def test_a_connection_without_requests_is_closed_after_a_while() -> None:
    with serving(timeout_keep_alive=0.01) as port:
        assert said(port) == b""


def test_a_request_that_takes_longer_than_a_connection_may_be_idle_is_answered() -> None:
    with serving(timeout_keep_alive=0.5) as port:
        assert said(port, asked("/long")).endswith(b"/long ")


class Transport(asyncio.Transport):
    """Takes down what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def close(self) -> None:
        pass

    pause_reading = resume_reading = close

    def is_closing(self) -> bool:
        return False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return default


def written(*pieces: bytes) -> list[bytes]:
    """Return what is written when the pieces come one by one, each once what came before is answered."""
    return asyncio.run(_written(pieces))


def connected(state: ServerState, application: Any = echo) -> tuple[Connection, Transport]:
    connection, transport = Connection(uvicorn.Config(application, log_config=None), state, {}), Transport()
    connection.connection_made(transport)
    return connection, transport


async def taken(connection: Connection, piece: bytes) -> None:
    connection.data_received(piece)
    await turned()


async def turned() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


async def _written(pieces: tuple[bytes, ...]) -> list[bytes]:
    connection, transport = connected(ServerState())
    for piece in pieces:
        await taken(connection, piece)
    await asyncio.sleep(0 if connection.cycle.response_complete else 0.2)
    connection.connection_lost(None)
    return transport.written


def bodies(answers: list[bytes]) -> list[bytes]:
    return [each.partition(b"\r\n\r\n")[2] for each in answers if each.startswith(b"HTTP/1.1 200 OK\r\n")]


def test_an_answer_is_one_write() -> None:
    """A client that is woken by the head alone would have to wait again for the body."""
    (answer,) = written(asked("/a", body=b"hello"))
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b"/a hello")


def test_two_requests_may_wait_for_the_same_future() -> None:
    async def answers() -> list[bytes]:
        shared = asyncio.get_running_loop().create_future()

        async def application(_: Scope, __: Receive, send: Send) -> None:
            await Response(await shared).send(send, "some-id")

        pairs = [connected(ServerState(), application) for _ in range(2)]
        for connection, _ in pairs:
            await taken(connection, asked("/a"))
        shared.set_result(b"shared")
        await turned()
        for connection, _ in pairs:
            connection.connection_lost(None)
        return [each for _, transport in pairs for each in bodies(transport.written)]

    assert asyncio.run(answers()) == [b"shared", b"shared"]


def test_requests_like_the_one_before_are_answered_each_with_its_own_body() -> None:
    one, two, six = (asked("/a", body=body) for body in (b"one", b"two", b"six"))
    pieces = one, two, six, asked("/b", body=b"two"), one, asked("/a", body=b"four"), two + six, one
    expected = ["/a one", "/a two", "/a six", "/b two", "/a one", "/a four", "/a two", "/a six", "/a one"]
    assert bodies(written(*pieces)) == [each.encode() for each in expected]


@pytest.mark.parametrize("body", [b"hello", b"hello\r\n", b"\r\n", b"\r\n\r\n", b""])
def test_empty_lines_between_requests_belong_to_none_of_them(body) -> None:
    request = asked("/a", body=body)
    pieces = [request + b"\r\n"] * 3 + [request + b"PO", b"ST" + request.removeprefix(b"POST")]
    assert bodies(written(*pieces)) == [b"/a " + body] * 5


def test_a_client_that_asks_to_keep_the_connection_may_repeat_itself_too() -> None:
    request = asked("/a", body=b"hello").replace(b"\r\n\r\n", b"\r\nConnection: keep-alive\r\n\r\n")
    assert bodies(written(request, request, request)) == [b"/a hello"] * 3


def test_every_answer_has_the_date_of_its_own_second() -> None:
    state = ServerState()
    state.default_headers = [(b"date", b"first")]

    async def answers() -> list[bytes]:
        connection, transport = connected(state)
        for day in (b"first", b"second", b"third"):
            state.default_headers = [(b"date", day)]  # as uvicorn does
            await taken(connection, asked("/a"))
        return transport.written

    dates = [each.split(b"\r\n")[1] for each in asyncio.run(answers())]
    assert dates == [b"date: first", b"date: second", b"date: third"]


def test_a_request_that_comes_while_one_like_it_is_answered_waits_for_its_turn() -> None:
    first, slow, quick = (asked("/a", body=body) for body in (b"none", b"slow", b"fast"))
    assert bodies(written(first, slow, quick)) == [b"/a none", b"/a slow", b"/a fast"]
    other = asked("/b", body=b"fast")
    assert bodies(written(first, other, slow, other)) == [b"/a none", b"/b fast", b"/a slow", b"/b fast"]


def test_a_connection_keeps_few_heads() -> None:
    async def kept() -> int:
        connection, _ = connected(ServerState())
        for length in range(3 * MOST_KNOWN):
            await taken(connection, asked("/a", body=b"x" * length))
        return len(connection._known)

    assert 0 < asyncio.run(kept()) <= MOST_KNOWN


def test_of_many_heads_in_turn_each_is_answered_with_its_own_path_and_body() -> None:
    requests = [(path, b"x" * length) for length in range(30) for path in ("/a", "/b")]
    pieces = [asked(path, body=body) for path, body in requests]
    assert bodies(written(*pieces, *pieces[::-1])) == [
        path.encode() + b" " + body for path, body in [*requests, *requests[::-1]]
    ]


def test_what_looks_like_the_request_before_inside_of_another_one_is_not_one() -> None:
    request = asked("/a", body=b"hello")
    outer = asked("/outer", body=request).removesuffix(request)
    assert bodies(written(request, request, outer, request)) == [b"/a hello", b"/a hello", b"/outer " + request]
    both = asked("/c") + request
    after = [b"/a hello", b"/outer " + request, b"/b ", *[b"/a hello", b"/b "] * 2]
    assert bodies(written(request, outer, *[request + asked("/b")] * 3)) == after
    assert bodies(written(both, both)) == [b"/c ", b"/a hello"] * 2
    header = asked("/odd").removesuffix(b"\r\n") + b"X: "
    answers = written(request, header, request)
    assert [each.split(b" ")[1] for each in answers] == [b"200", b"400"]


def test_a_request_that_closes_the_connection_is_followed_by_none() -> None:
    request = asked("/a", body=b"hello")
    closing = asked("/a", body=b"hello", last=True)
    assert bodies(written(request, closing, closing)) == [b"/a hello", b"/a hello"]


@pytest.mark.parametrize("seed", range(20))
def test_however_requests_are_cut_into_pieces_they_are_answered_in_their_order(seed) -> None:
    draw = np.random.default_rng(seed)
    chunked = b"POST /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    sent = [b"x" * draw.choice([0, 3, 3, 3, 40]) for _ in range(30)]
    requests = [asked("/a", body=body) if len(body) < 40 else chunked for body in sent]
    ends = [sum(map(len, requests[: count + 1])) for count in range(len(requests))]
    whole = b"".join(requests)
    cuts = sorted({0, *draw.choice(ends, 25), *draw.integers(0, len(whole), 10), len(whole)})
    pieces = [whole[start:end] for start, end in pairwise(cuts)]
    assert bodies(written(*pieces)) == [b"/a " + body if len(body) < 40 else b"/c abc" for body in sent]
