"""HTTP connections: real sockets to the transport, with an application that echoes."""

import asyncio
import gc
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from nightshift.http.parser import HEAD_BYTES, MAX_HEADERS, PIECE
from nightshift.http.transport import Connection, HttpServer, Timeouts
from nightshift_testkit.processes import SECONDS, wait_until
from tests.nightshift.http.echo import (
    LARGEST,
    Echo,
    Wire,
    bodies,
    connected,
    exchange,
    outcomes,
    raw,
    received,
    request,
    serving,
    statuses,
)


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving() as port:
        yield port


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
    answered = bodies(exchange(port, b"".join(many) + request("/b", last=True)))
    assert answered == [*(b"/a %d" % number for number in range(5000)), b"/b "]


def test_a_client_that_asks_whether_to_go_on_is_answered_before_it_sends_the_body(port) -> None:
    head = request("/a", "Expect: 100-continue", body=b"ok", last=True).removesuffix(b"ok")
    with connected(port) as client:
        client.sendall(head)
        assert client.recv(65536) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"ok")
        assert received(client).endswith(b"/a ok")
    assert statuses(exchange(port, head.replace(b"/a", b"/refused"))) == [401]
    assert statuses(exchange(port, head.replace(b"100-continue", b"more"))) == [417]


def test_http_1_0_is_told_whether_its_connection_is_kept(port) -> None:
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


CHUNKED = "Transfer-Encoding: chunked"
POST, HOST = "POST /a HTTP/1.1", "Host: h"


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
    answer = exchange(port, sent)
    assert (statuses(answer), bodies(answer)[1]) == ([401, 200], b"/b y")


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.parametrize(
    "reads", [[request("/held"), request("/a", body=b"x")], [request("/held") + request("/a", body=b"x")]]
)
def test_while_requests_wait_for_their_responses_no_more_is_read(reads) -> None:
    async def talk() -> None:
        echo, transport = Echo(), Wire()
        connection = Connection(HttpServer(echo))
        connection.connection_made(transport)
        await asyncio.sleep(0)
        for data in reads:
            assert transport.is_reading
            connection.data_received(data)
            while not echo.requests:
                await asyncio.sleep(0)
        assert not transport.is_reading
        echo.is_released = True
        while b"/a x" not in transport.written or not transport.is_reading:
            await asyncio.sleep(0)
        connection.connection_lost(None)

    asyncio.run(asyncio.wait_for(talk(), SECONDS))


def test_clients_beyond_the_limit_are_told_to_come_again_and_take_no_room_from_others() -> None:
    with serving(Timeouts(linger=SECONDS), max_connections=1) as port:
        with connected(port) as client:
            client.sendall(request("/a"))
            assert client.recv(65536).endswith(b"/a ")
            refused = connected(port)
            response = refused.recv(65536)
            assert (outcomes(response), b"retry-after: 1\r\n" in response) == ([503], True)
        with refused:
            wait_until(lambda: outcomes(exchange(port, request("/a", last=True))) == [b"/a "], "there is room")


@pytest.mark.slow
def test_a_process_may_open_the_files_that_its_connections_need() -> None:
    script = "from nightshift.http import transport; print(transport.allow_connections())"
    shell = f"ulimit -S -n 300; ulimit -H -n 5200; exec {sys.executable} -c '{script}'"
    assert subprocess.run(["sh", "-c", shell], check=True, capture_output=True, text=True).stdout == "5000\n"


def test_answers_that_are_read_late_come_whole(port) -> None:
    with connected(port) as client:
        client.sendall(request("/large") * 3 + request("/b", last=True))
        time.sleep(0.1)
        content = received(client)
    assert (content.count(b"HTTP/1.1 200"), len(content) > 30_000_000, content[-3:]) == (4, True, b"/b ")


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
    answers = [received(connection) for connection in (idle, busy, partial)]
    for connection in (idle, busy, partial):
        connection.close()
    assert [bodies(answer) for answer in answers] == [[], [b"/slow "], [b"/a abc"]]
    assert all(b"connection: close" in answer for answer in answers[1:])


def test_idle_connections_hold_nothing_of_what_they_sent(port) -> None:
    body = b"x" * (LARGEST // 2)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    clients = [connected(port) for _ in range(400)]
    for connection in clients:
        connection.sendall(request("/refused", body=body) + request("/a", body=body[:5]))
        while b"/a xxxxx" not in connection.recv(65536):
            pass
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    for connection in clients:
        connection.close()
    assert grown < 400 * len(body) / 4


@pytest.mark.slow
def test_a_request_that_was_refused_is_let_go_without_a_collection_of_garbage() -> None:
    def count() -> int:
        # by its type: asked for their class, deprecated objects of other libraries warn
        return sum(type(survivor) is Connection for survivor in gc.get_objects())

    gc.collect()
    before = count()  # another test's may be in a record of its log
    gc.disable()
    try:
        with serving() as port:
            for _ in range(20):
                exchange(port, raw(POST, HOST, "A: " + "x" * 2 * HEAD_BYTES))
            wait_until(lambda: count() <= before, "each connection is let go")
    finally:
        gc.enable()


def test_large_requests_are_parsed_piece_by_piece(port) -> None:
    body = b"y" * (4 * PIECE + 1)
    assert bodies(exchange(port, request("/a", body=body) * 2 + request("/b", last=True))) == [b"/a " + body] * 2 + [
        b"/b "
    ]
