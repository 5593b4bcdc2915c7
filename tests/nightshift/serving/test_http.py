"""HTTP connections: real sockets to the transport, with an application that echoes."""

import asyncio
import gc
import re
import resource
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import pytest

from nightshift.serving.errors import UnauthorizedError
from nightshift.serving.http import PIECE, Connection, Server, Timeouts
from nightshift.serving.messages import Request, Response
from nightshift.serving.parser import HEAD_BYTES, MAX_HEADERS
from tests.nightshift.serving.conftest import answering
from tests.processes import SECONDS, wait_until

LARGEST = 100_000


class Echo:
    """Answers with the path and the body; the body `slow` and the path `/slow` later, `/held` once it is released."""

    max_body = LARGEST

    def __init__(self) -> None:
        self.requests, self.is_released = 0, False

    def admit(self, request: Request) -> None:
        if request.path == "/refused":
            request.refuse(UnauthorizedError("no"))

    async def answer(self, request: Request) -> Response:
        self.requests += 1
        if request.refusal:
            return Response.refusal(request.refusal)
        if request.body == b"slow" or request.path == "/slow":
            await asyncio.sleep(0.05)
        while request.path == "/held" and not self.is_released:
            await asyncio.sleep(0.01)
        body = b"x" * 10_000_000 if request.path == "/large" else request.path.encode() + b" " + request.body
        return Response(body, headers={"content-type": "text/plain"})


@contextmanager
def serving(timeouts: Timeouts | None = None, echo: Echo | None = None) -> Iterator[int]:
    """Serve it; yield the port."""
    with answering(echo or Echo(), timeouts) as url:
        yield int(url.rpartition(":")[2])


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving() as found:
        yield found


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=SECONDS)


def received(client: socket.socket) -> bytes:
    """All that comes until the server closes the connection."""
    return b"".join(iter(lambda: client.recv(65536), b""))


def exchange(port: int, *parts: bytes) -> bytes:
    """Send the parts one by one; return all that comes until the server closes the connection."""
    with connected(port) as client:
        for part in parts:
            client.sendall(part)
        return received(client)


def request(path: str, *lines: str, method: str = "POST", last: bool = False, body: bytes = b"") -> bytes:
    head = [f"{method} {path} HTTP/1.1", "Host: h", f"Content-Length: {len(body)}", *lines]
    return "\r\n".join([*head, *["Connection: close"] * last, "", ""]).encode() + body


def raw(*lines: str, body: bytes = b"") -> bytes:
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def statuses(answers: bytes) -> list[int]:
    return [int(each) for each in re.findall(rb"HTTP/1.1 (\d{3}) ", answers)]


def bodies(answers: bytes) -> list[bytes]:
    """The bodies of several answers."""
    found = []
    while answers:
        head, _, answers = answers.partition(b"\r\n\r\n")
        (line,) = [each for each in head.split(b"\r\n") if each.startswith(b"content-length: ")]
        length = int(line.split()[1])
        found.append(answers[:length])
        answers = answers[length:]
    return found


def test_a_response_has_a_date_its_length_and_the_applications_headers(port) -> None:
    head, _, body = exchange(port, request("/a?b=c", body=b"hello", last=True)).partition(b"\r\n\r\n")
    status, date, *headers = head.split(b"\r\n")
    assert (status, date[:6], date[-4:]) == (b"HTTP/1.1 200 OK", b"date: ", b" GMT")
    assert sorted(headers) == [b"connection: close", b"content-length: 8", b"content-type: text/plain"]
    assert body == b"/a hello"


def test_requests_that_come_at_once_are_answered_in_their_order(port) -> None:
    sent = request("/slow") + request("/b", body=b"two") + request("/c", body=b"three", last=True)
    assert bodies(exchange(port, sent)) == [b"/slow ", b"/b two", b"/c three"]
    many = [request("/a", body=b"%d" % number) for number in range(5000)]
    found = bodies(exchange(port, b"".join(many) + request("/b", last=True)))
    assert found == [*(b"/a %d" % number for number in range(5000)), b"/b "]


def test_a_client_that_asks_whether_to_go_on_is_answered_before_it_sends_the_body(port) -> None:
    head = request("/a", "Expect: 100-continue", body=b"ok", last=True).removesuffix(b"ok")
    with connected(port) as client:
        client.sendall(head)
        assert client.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"ok")
        assert received(client).endswith(b"/a ok")
    assert statuses(exchange(port, head.replace(b"/a", b"/refused"))) == [401]
    assert statuses(exchange(port, head.replace(b"100-continue", b"more"))) == [417]


def test_http_1_0_is_answered_and_closed_unless_it_asks_otherwise(port) -> None:
    assert exchange(port, raw("GET /a HTTP/1.0")).endswith(b"connection: close\r\n\r\n/a ")
    kept = exchange(port, raw("GET /a HTTP/1.0", "Connection: keep-alive") + raw("GET /b HTTP/1.0"))
    assert (kept.count(b"connection: keep-alive\r\n"), bodies(kept)) == (1, [b"/a ", b"/b "])


@pytest.mark.parametrize("last", ["Connection: close", None])
def test_a_client_that_sends_no_more_is_answered_and_the_connection_closed(port, last) -> None:
    for sent in (request("/slow", *[last] if last else []), request("/slow") + request("/b")):
        with connected(port) as client:
            client.sendall(sent)
            client.shutdown(socket.SHUT_WR)
            assert bodies(received(client)) == [b"/slow ", b"/b "][: sent.count(b"POST")]


@pytest.mark.parametrize("upgrade", ["Connection: Upgrade, HTTP2-Settings", "Connection: Upgrade"])
@pytest.mark.parametrize("is_chunked", [False, True])
def test_another_protocol_is_not_spoken_and_the_body_is_read(port, upgrade, is_chunked) -> None:
    body = b"3\r\nabc\r\n0\r\n\r\n" if is_chunked else b"abc"
    length = "Transfer-Encoding: chunked" if is_chunked else "Content-Length: 3"
    head = raw(
        "POST /a HTTP/1.1", "Host: h", upgrade, "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA", length
    )
    for parts in ([head + body + request("/b", last=True)], [head, body, request("/b", last=True)]):
        assert bodies(exchange(port, *parts)) == [b"/a abc", b"/b "]
    assert bodies(exchange(port, request("/a", upgrade, "Upgrade: websocket", method="GET") + request("/b", last=True)))


def test_what_may_come_with_chunks_is_skipped(port) -> None:
    sent = raw("POST /a HTTP/1.1", "host: h", "transfer-encoding: Chunked")
    sent += b'1;a=b;c="d"\r\na\r\n002\r\nbc\r\n0\r\nTrailer: x\r\n\r\n'
    assert bodies(exchange(port, sent + b"\r\n" + request("/b", last=True))) == [b"/a abc", b"/b "]


@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("/a?b", b"/a"),
        ("http://host:1/a?b", b"/a"),
        ("http://host", b"/"),
        ("/%61%C3%A4?%zz", "/aä".encode()),
        ("*", b"*"),
    ],
)
def test_every_form_of_a_target_has_its_path(port, target, path) -> None:
    method = "OPTIONS" if target == "*" else "GET"
    assert bodies(exchange(port, request(target, method=method, last=True))) == [path + b" "]


CHUNKED = "Transfer-Encoding: chunked"
POST, HOST = "POST /a HTTP/1.1", "Host: h"


@pytest.mark.parametrize(
    "lines",
    [
        ["nonsense"],
        [POST],  # no host
        [POST, HOST, HOST],
        [POST, "Host: a", "Host: b"],
        [POST, "Host: a b"],
        [POST, "Host: a/b"],
        ["POST /a HTTP/1.0", "Host: a", "Host: b"],
        *([POST, HOST, f"Content-Length: {each}"] for each in ("9" * 5000, "-1", "+5", "5, 5", "0x5", "5_0", "")),
        [POST, HOST, "Content-Length: 5", "Content-Length: 6"],
        [POST, HOST, "Content-Length: 5", "Content-Length: 5"],
        [POST, HOST, "Content-Length: 5", CHUNKED],
        [POST, HOST, CHUNKED, "Content-Length: 5"],
        ["POST /a HTTP/1.0", CHUNKED],
        *([POST, HOST, f"Transfer-Encoding: {each}"] for each in ("gzip", "gzip, chunked", "identity")),
        [POST, HOST, CHUNKED, CHUNKED],
        *([f"GET {target} HTTP/1.1", HOST] for target in ("a", "/\xe4", "/a b", "/\0")),
        *([f"GET /a HTTP/{version}", HOST] for version in ("0.9", "1.2", "2.0", "3.0")),
        ["CONNECT h:1 HTTP/1.1", HOST],
        ["PRI * HTTP/2.0"],
        ["FOO /a HTTP/1.1", HOST],
        [POST, HOST, "A : b"],
        [POST, HOST, " A: b"],
        [POST, HOST, "A: b", " c"],
        [POST, HOST, "A: b\0"],
        [POST, HOST, "A"],
    ],
    ids=lambda lines: " ".join(lines)[:60],
)  # fmt: skip
def test_what_http_forbids_is_refused_and_nothing_is_read_behind_it(port, lines) -> None:
    found = exchange(port, raw(*lines) + b"0\r\n\r\n" + request("/b"))
    assert statuses(found) == [400]
    assert b"connection: close\r\n" in found
    assert b'{"error":"' in found


@pytest.mark.parametrize("target", ["/%zz", "/%f", "/%", "/%ff", "/%c3%28", "/%ed%a0%80", "http://h/%zz", "http://"])
def test_a_target_that_is_no_text_is_refused_and_the_next_request_answered(port, target) -> None:
    assert statuses(exchange(port, request(target, body=b"abc") + request("/b", last=True))) == [400, 200]


def test_a_length_with_zeros_before_it_is_that_length(port) -> None:
    sent = raw(POST, HOST, f"Content-Length: {'0' * 5000}3 ", "Connection: close", body=b"abc")
    assert bodies(exchange(port, sent)) == [b"/a abc"]


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (raw(POST, HOST, "A: " + "x" * HEAD_BYTES), 431),
        (raw(POST, HOST, *["A: " + "x" * 1000] * 70), 431),
        (raw(POST, HOST, *["A: b"] * (MAX_HEADERS + 1)), 431),
        (raw("GET /" + "x" * HEAD_BYTES + " HTTP/1.1", HOST), 431),
        (raw("GET /a?" + "x" * 3 * HEAD_BYTES + " HTTP/1.1", HOST), 431),
        (b"A" * 3 * HEAD_BYTES, 400),
        (b"\r\n" * HEAD_BYTES, 431),
        (raw(POST, HOST, CHUNKED) + b"1;" + b"x" * 2 * HEAD_BYTES + b"\r\na\r\n", 431),
        (raw(POST, HOST, CHUNKED) + b"0\r\nA: " + b"x" * 2 * HEAD_BYTES + b"\r\n\r\n", 431),
        (raw(POST, HOST, CHUNKED) + b"0\r\n" + b"A: b\r\n" * 200 + b"\r\n", 431),
        (raw(POST, HOST, f"Content-Length: {LARGEST + 1}"), 413),
        (raw(POST, HOST, "Content-Length: 18446744073709551615"), 413),
        (raw(POST, HOST, CHUNKED) + b"20000\r\n" + b"x" * 0x20000 + b"\r\n", 413),
        (raw(POST.replace("/a", "/refused"), HOST, CHUNKED) + (b"8000\r\n" + b"x" * 0x8000 + b"\r\n") * 4, 413),
    ],
    ids=range(14),
)
def test_heads_and_bodies_are_bounded_however_they_come(port, sent, status) -> None:
    assert statuses(exchange(port, sent)) == [status]
    with connected(port) as client:
        for start in range(0, len(sent), 3000):
            client.sendall(sent[start : start + 3000])
        assert statuses(received(client)) == [status]


def test_a_refused_request_keeps_the_connection_where_its_body_can_be_skipped(port) -> None:
    sent = request("/refused", body=b"x" * 50_000) + request("/b", body=b"y", last=True)
    found = exchange(port, sent)
    assert (statuses(found), bodies(found)[1]) == ([401, 200], b"/b y")


def test_a_client_that_is_too_slow_is_given_up_and_others_are_not() -> None:
    quick = Timeouts(idle=30, head=0.1, body=0.1)
    with serving(quick) as port, connected(port) as idle, connected(port) as head, connected(port) as body:
        head.sendall(b"POST /a HT")
        body.sendall(raw(POST, HOST, "Content-Length: 5", body=b"ab"))
        assert (statuses(received(head)), statuses(received(body))) == ([408], [408])
        idle.sendall(request("/slow", last=True))
        assert bodies(received(idle)) == [b"/slow "]
    with serving(Timeouts(idle=0.1)) as port:
        assert exchange(port) == b""


def test_a_client_that_sends_a_byte_now_and_then_is_given_up_all_the_same() -> None:
    with serving(Timeouts(head=1.5)) as port, connected(port) as client:
        client.sendall(b"POST /")
        client.settimeout(0.01)
        assert statuses(wait_until(lambda: client.send(b"a") and client.recv(65536), "it is given up")) == [408]


def test_a_client_that_does_not_read_its_answers_is_sent_no_more_and_given_up() -> None:
    echo = Echo()
    with serving(Timeouts(write=0.1), echo) as port, connected(port) as client:
        client.sendall(request("/large") * 50)
        wait_until(lambda: echo.requests > 0, "the first one is answered")
        wait_until(lambda: is_gone(client), "the connection is closed")
        assert echo.requests < 5


def is_gone(client: socket.socket) -> bool:
    try:
        client.send(b"x")
    except ConnectionError:
        return True
    return False


class Gauge(asyncio.Transport):
    """A transport that keeps whether it reads, and the answers."""

    def __init__(self) -> None:
        super().__init__()
        self.reads, self.written = True, b""

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    def is_closing(self) -> bool:
        return False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def close(self) -> None:
        """Nothing to close."""


def test_while_a_request_is_answered_little_more_is_read() -> None:
    async def talk() -> None:
        echo, transport = Echo(), Gauge()
        connection = Connection(Server(echo))
        connection.connection_made(transport)
        connection.data_received(request("/held") + request("/b"))
        while not echo.requests:
            await asyncio.sleep(0)
        assert transport.reads
        connection.data_received(request("/a", body=b"x" * PIECE))
        assert not transport.reads
        echo.is_released = True
        while b"/a x" not in transport.written:
            await asyncio.sleep(0)
        while not transport.reads:
            await asyncio.sleep(0)
        connection.connection_lost(None)

    asyncio.run(asyncio.wait_for(talk(), SECONDS))


def test_answers_that_are_read_late_come_whole(port) -> None:
    with connected(port) as client:
        client.sendall(request("/large") * 3 + request("/b", last=True))
        time.sleep(0.1)
        found = received(client)
    assert (found.count(b"HTTP/1.1 200"), len(found) > 30_000_000, found[-3:]) == (4, True, b"/b ")


def test_a_stopped_server_answers_what_it_has_and_closes_what_is_idle() -> None:
    with serving() as port:
        idle, busy, partial = connected(port), connected(port), connected(port)
        partial.sendall(request("/a", body=b"abc")[:-2])
        idle.sendall(request("/a"))
        idle.recv(65536)
        busy.sendall(request("/slow"))
        time.sleep(0.02)
        rest = threading.Timer(0.1, lambda: partial.sendall(b"bc"))
        rest.start()
    rest.join()
    answers = [received(each) for each in (idle, busy, partial)]
    for each in (idle, busy, partial):
        each.close()
    assert [bodies(each) for each in answers] == [[], [b"/slow "], [b"/a abc"]]
    assert all(b"connection: close" in each for each in answers[1:])


def test_idle_connections_hold_nothing_of_what_they_sent(port) -> None:
    body = b"x" * (LARGEST // 2)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    clients = [connected(port) for _ in range(400)]
    for each in clients:
        each.sendall(request("/refused", body=body) + request("/a", body=body[:5]))
        while b"/a xxxxx" not in each.recv(65536):
            pass
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    for each in clients:
        each.close()
    assert grown < 400 * len(body) / 4


def test_a_request_that_was_refused_is_let_go_without_a_collection_of_garbage() -> None:
    gc.collect()
    gc.disable()
    try:
        with serving() as port:
            for _ in range(20):
                exchange(port, raw(POST, HOST, "A: " + "x" * 2 * HEAD_BYTES))
        # by its type: asked for their class, deprecated objects of other libraries warn
        assert not [found for found in gc.get_objects() if type(found) is Connection]
    finally:
        gc.enable()


@pytest.mark.parametrize("seed", range(20))
def test_however_requests_are_cut_into_pieces_they_are_answered_in_their_order(port, seed) -> None:
    draw = np.random.default_rng(seed)
    chunked = raw("POST /c HTTP/1.1", "Host: h", "Transfer-Encoding: chunked") + b"3\r\nabc\r\n0\r\n\r\n"
    sent = [b"x" * draw.choice([0, 3, 3, 40, 20_000]) for _ in range(20)]
    requests = [chunked if len(body) == 40 else request("/a", body=body) for body in sent]
    whole = b"".join(requests) + request("/b", last=True)
    cuts = sorted({0, *draw.integers(0, len(whole), 20).tolist(), len(whole)})
    found = exchange(port, *[whole[start:end] for start, end in pairwise(cuts)])
    assert bodies(found) == [*(b"/c abc" if len(body) == 40 else b"/a " + body for body in sent), b"/b "]


def test_large_requests_are_parsed_piece_by_piece(port) -> None:
    body = b"y" * (4 * PIECE + 1)
    assert bodies(exchange(port, request("/a", body=body) * 2 + request("/b", last=True))) == [b"/a " + body] * 2 + [
        b"/b "
    ]
