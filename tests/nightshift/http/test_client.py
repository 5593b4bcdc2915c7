"""The client that blocks, over sockets."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nightshift.http.client import (
    ExchangeError,
    ResponseReceiver,
    ServerAddress,
    SilentServerError,
    UnreachableError,
    call,
    encode_request,
)
from nightshift.http.messages import HttpResponse
from nightshift_testkit.servers import free_port

REQUEST = encode_request("GET", "/", "localhost")
CHUNKED = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 404 Not Found\r\nX-Id: 7\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNKED += b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"


@contextmanager
def responding(*parts: bytes, is_open: bool = False) -> Iterator[ServerAddress]:
    """Respond to one connection with some bytes, and close it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def respond() -> None:
            client, _ = listener.accept()
            with client:
                client.recv(65536)
                for part in parts:
                    client.sendall(part)
                if is_open:
                    client.recv(1)

        thread = threading.Thread(target=respond)
        thread.start()
        yield ServerAddress(*listener.getsockname())
        thread.join()


def test_a_response_is_returned_whole_with_its_status_and_headers() -> None:
    with responding(CHUNKED[:90], CHUNKED[90:]) as address:
        expected = HttpResponse(b"abcde", 404, {"x-id": "7", "transfer-encoding": "chunked"})
        assert call(address, REQUEST, 5) == expected


@given(st.lists(st.integers(1, 20), max_size=60))
def test_a_response_is_the_same_wherever_it_is_cut(sizes) -> None:
    receiver, rest = ResponseReceiver(), CHUNKED
    receiver.expect()
    for size in sizes:
        if rest:
            receiver.parse(rest[:size])
        rest = rest[size:]
    if rest:
        assert not receiver.is_complete
        receiver.parse(rest)
    assert (receiver.status, receiver.take_body(), receiver.is_complete) == (404, b"abcde", True)


@pytest.mark.parametrize("parts", [[], [CHUNKED[:-1]], [b"no HTTP\r\n\r\n"], [CHUNKED[:10]]])
def test_a_response_without_its_end_is_an_error(parts) -> None:
    with responding(*parts) as address, pytest.raises(ExchangeError):
        call(address, REQUEST, 5)


def test_a_server_that_stays_silent_is_an_error() -> None:
    with responding(CHUNKED[:-1], is_open=True) as address, pytest.raises(SilentServerError):
        call(address, REQUEST, 0.1)


def test_a_port_without_a_server_is_an_error_that_names_it() -> None:
    port = free_port()
    with pytest.raises(UnreachableError, match=rf"no connection to 127\.0\.0\.1:{port}: "):
        call(ServerAddress("127.0.0.1", port), REQUEST, 5)


@pytest.mark.parametrize(
    ("url", "authority"),
    [
        ("http://127.0.0.1:8001", "127.0.0.1:8001"),
        ("http://engine", "engine"),
        ("https://engine:443/", "engine"),
        ("https://engine:80", "engine:80"),
        ("http://[::1]:8001", "[::1]:8001"),
    ],
)
def test_an_address_is_named_as_in_its_url_without_the_default_port(url, authority) -> None:
    assert ServerAddress.from_url(url).authority == authority
