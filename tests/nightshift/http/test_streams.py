"""Responses that are sent as they come."""

import asyncio
import socket
import threading
from collections.abc import AsyncGenerator

import pytest

from nightshift.http.messages import HttpRequest, HttpResponse
from nightshift_testkit.processes import wait_until
from tests.nightshift.http.echo import answering, connected, raw, received, request


class Streams:
    """Answers with a stream: `/words`, `/broken`, `/endless`; counts the pieces, and the streams that have ended."""

    max_body = 1000

    def __init__(self, status: int = 200) -> None:
        self.status = status
        self.pieces = self.ended = 0

    def admit(self, request: HttpRequest) -> None:
        """Admit all."""

    async def answer(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse(b"", self.status, headers={"content-type": "text/plain"}, stream=self.stream(request.path))

    async def stream(self, path: str) -> AsyncGenerator[bytes, None]:
        try:
            yield b"one"
            while path == "/endless":
                self.pieces += 1
                yield b"x" * 100_000
            while path == "/silent":
                await asyncio.sleep(0.01)
            if path == "/broken":
                raise ConnectionResetError("the source is gone")
            yield b"two" * 4
        finally:
            self.ended += 1


def ask(client: socket.socket, path: str) -> None:
    client.sendall(request(path))
    assert client.recv(10)


def ask_status(port: int) -> bytes:
    with connected(port) as client:
        client.sendall(request("/words", last=True))
        return received(client).split(b" ")[1]


def test_a_stream_comes_in_chunks_and_the_connection_is_kept() -> None:
    with answering(Streams()) as url, connected(int(url.rpartition(":")[2])) as client:
        client.sendall(request("/words") + request("/words", last=True))
        head, first, second, _ = received(client).replace(b"HTTP/1.1", b"one").split(b"one")[1:]
    assert b"transfer-encoding: chunked\r\n" in head
    assert b"content-length" not in head
    assert head.endswith(b"\r\n\r\n3\r\n")
    assert first == b"\r\nc\r\ntwotwotwotwo\r\n0\r\n\r\n"
    assert second.startswith(b" 200 OK")


def test_http_1_0_receives_the_body_as_it_is_and_the_end_of_the_connection() -> None:
    with answering(Streams()) as url, connected(int(url.rpartition(":")[2])) as client:
        client.sendall(raw("GET /words HTTP/1.0", "Connection: keep-alive"))
        assert received(client).endswith(b"connection: close\r\n\r\nonetwotwotwotwo")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_stream_that_fails_ends_without_its_last_chunk() -> None:
    with answering(Streams()) as url, connected(int(url.rpartition(":")[2])) as client:
        client.sendall(request("/broken"))
        assert received(client).endswith(b"\r\n\r\n3\r\none\r\n")


def test_a_client_that_reads_slowly_slows_the_source_and_one_that_leaves_ends_it() -> None:
    streams = Streams()
    with answering(streams, cancels_abandoned=True) as url:
        with connected(int(url.rpartition(":")[2])) as client:
            ask(client, "/endless")
            seen = 0
            for _ in range(20):  # the buffers of the sockets are full after a few of them
                before, seen = seen, streams.pieces
                if before == seen > 0:
                    break
                threading.Event().wait(0.2)
            assert before == seen
        wait_until(lambda: streams.ended == 1, "the stream has ended")


def test_connections_that_are_closed_at_once_leave_room_for_others() -> None:
    with answering(Streams(), cancels_abandoned=True, max_connections=5) as url:
        port = int(url.rpartition(":")[2])
        for _ in range(20):
            connected(port).close()
        wait_until(lambda: ask_status(port) == b"200", "there is room")


def test_a_status_that_has_no_name_is_sent_as_its_number() -> None:
    with answering(Streams(499)) as url:
        assert ask_status(int(url.rpartition(":")[2])) == b"499"


def test_a_server_that_cancels_abandoned_requests_ends_one_when_its_client_leaves() -> None:
    streams = Streams()
    with answering(streams, cancels_abandoned=True) as url, connected(int(url.rpartition(":")[2])) as client:
        ask(client, "/silent")
        client.close()
        wait_until(lambda: streams.ended == 1, "the stream has ended")


@pytest.mark.parametrize("cancels", [True, False])
def test_a_client_that_has_finished_sending_gets_its_whole_answer_and_no_other_byte(cancels) -> None:
    with answering(Streams(), cancels_abandoned=cancels) as url, connected(int(url.rpartition(":")[2])) as client:
        client.sendall(request("/words", last=True))
        client.shutdown(socket.SHUT_WR)
        answer = received(client)
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert answer.endswith(b"0\r\n\r\n")
