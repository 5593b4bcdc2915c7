"""Parses a connection's bytes into requests, by httptools; refuses violations of HTTP/1.1, in bounded memory."""

import re
from collections import deque
from typing import Literal, Protocol
from urllib.parse import unquote_to_bytes

import httptools
import msgspec

from nightshift.http.errors import ExpectationError, LargeBodyError, LargeHeadError, RefusedError
from nightshift.http.messages import HttpRequest

PIECE = 16 * 1024  # bytes parsed at a time; limits are checked after each piece
HEAD_BYTES = 64 * 1024
MAX_HEADERS = 100
MAX_DIGITS = 19  # a length in 64 bits has no more
VERSIONS = frozenset({"1.0", "1.1"})
HOST = re.compile(rb"([\w.~%!$&'()*+,;=-]*|\[[\w.:]+\])(:\d*)?", re.ASCII)
NO_ESCAPE = re.compile(rb"%(?![0-9a-fA-F]{2})")


class Admission(Protocol):
    """Admits or refuses a request before its body is read.

    Attributes:
        max_body: most bytes of a body.
    """

    max_body: int

    def admit(self, request: HttpRequest) -> None:
        """Find the handler of a request, or refuse it."""


class Received(msgspec.Struct):
    """A complete request.

    Attributes:
        request: the request, without its body if it is refused.
        version: version of HTTP.
        keeps_alive: whether another request may follow.
    """

    request: HttpRequest
    version: str
    keeps_alive: bool


class RequestParser:
    """Reads the requests of a connection, one after the other.

    Attributes:
        requests: the complete requests; none follows one that ends the connection.
        phase: phase of the incomplete request; `idle` between two requests.
        awaits_continue: whether the client waits for `100 Continue` before it sends the body.
    """

    def __init__(self, admission: Admission) -> None:
        """Wait for the first request.

        Args:
            admission: called after each head.
        """
        self.requests: deque[Received] = deque()
        self._admission = admission
        self._has_ended = False  # no other request can be read
        self._begin()

    def _begin(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._silent = 0  # bytes since the last callback, which the parser buffers
        self._clear()

    def _clear(self) -> None:
        self._request, self._version = HttpRequest(headers={}), "1.1"
        self.phase: Literal["idle", "head", "body"] = "idle"
        self.awaits_continue = False
        self._target, self._fields, self._head_bytes = b"", 0, 0
        self._body, self._body_bytes = bytearray(), 0

    def feed(self, data: bytes) -> None:
        """Parse received bytes; after a request that breaks the framing, refuse it and ignore the rest."""
        while data and not self._has_ended:
            piece, data = data[:PIECE], data[PIECE:]
            data = self._parse(piece) + data

    def _parse(self, data: bytes) -> bytes:
        """Parse a piece; return bytes to parse again."""
        self._silent += len(data)
        try:
            self._parser.feed_data(data)
            if self._silent > HEAD_BYTES:
                raise _large_head()
        except httptools.HttpParserUpgrade as upgrade:
            return self._without_upgrade() + data[upgrade.args[0] :]
        except RefusedError as error:
            self.refuse(error)
        except httptools.HttpParserCallbackError as error:
            if not isinstance(error.__context__, RefusedError):
                raise
            self.refuse(error.__context__)
        except httptools.HttpParserError as error:
            self.refuse(RefusedError(f"this is not HTTP/1.1: {error}"))
        return b""

    def refuse(self, error: RefusedError) -> None:
        """Refuse the incomplete request, and end the connection's requests with it."""
        self._request.refuse(error)
        self._hand_over(keeps_alive=False)

    def close(self) -> None:
        """Drop the requests, and the reference cycle with httptools' parser."""
        self._has_ended = True
        self._clear()
        self.requests.clear()
        del self._parser

    def on_message_begin(self) -> None:
        """Start a request."""
        self._silent, self.phase = 0, "head"

    def on_url(self, part: bytes) -> None:
        """Append a part of the target."""
        self._target += part
        self._count(len(part))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Add a header; trailers behind a chunked body are only counted."""
        self._silent = 0
        self._fields += 1
        self._count(len(name) + len(value))
        if self.phase == "head":
            headers, name, value = self._request.headers, name.lower(), value.rstrip()
            headers[name] = b"%b, %b" % (headers[name], value) if name in headers else value

    def _count(self, size: int) -> None:
        self._head_bytes += size
        if self._fields > MAX_HEADERS or self._head_bytes > HEAD_BYTES:
            raise _large_head()

    def on_headers_complete(self) -> None:
        """Check a head. A refused request keeps the connection if its body can be skipped."""
        self._silent, self.phase = 0, "body"
        request, headers = self._request, self._request.headers
        request.method, self._version = self._parser.get_method().decode(), self._parser.get_http_version()
        _check(request, self._version)
        try:
            request.path, request.query = _split(self._target)
            self._admission.admit(request)
        except RefusedError as error:
            request.refuse(error)
        if b"expect" in headers:
            self._expect(request)
        if length := headers.get(b"content-length"):
            self._check_length(length)

    def on_body(self, part: bytes) -> None:
        """Append a part of the body; a refused request's is dropped."""
        self._silent = 0
        self._body_bytes += len(part)
        if self._body_bytes > self._admission.max_body:
            raise LargeBodyError(f"over {self._admission.max_body}", self._admission.max_body)
        if self._request.refusal is None:
            self._body += part

    def on_message_complete(self) -> None:
        """Add the request to the complete ones."""
        if self._parser.should_upgrade():
            return
        self._request.body = bytes(self._body)
        keeps_alive = self._parser.should_keep_alive()
        if self._version == "1.0":  # for the parser, keep-alive outweighs close
            keeps_alive = self._request.header(b"connection").lower() == "keep-alive"
        self._hand_over(keeps_alive)

    def _hand_over(self, keeps_alive: bool) -> None:
        self.requests.append(Received(self._request, self._version, keeps_alive))
        self._has_ended = not keeps_alive
        self._clear()

    def _without_upgrade(self) -> bytes:
        """Return the request's head without `Upgrade`, to be parsed again: the parser has stopped before its body."""
        request = self._request
        headers = [b"%b: %b\r\n" % header for header in request.headers.items() if header[0] != b"upgrade"]
        line = b"%b %b HTTP/%b\r\n" % (request.method.encode(), self._target, self._version.encode())
        self._begin()
        return b"".join([line, *headers, b"\r\n"])

    def _expect(self, request: HttpRequest) -> None:
        """Handle `Expect`: the client waits for `100 Continue`, which HTTP/1.0 does not have.

        Raises:
            RefusedError: the request's refusal, since its body may never come.
            ExpectationError: for any other expectation.
        """
        if request.refusal:
            raise request.refusal
        if self._version == "1.0":
            return
        if request.header(b"expect").lower() != "100-continue":
            raise ExpectationError(f"Expect is {request.header(b'expect')[:200]}; allowed: 100-continue")
        self.awaits_continue = True

    def _check_length(self, announced: bytes) -> None:
        limit = self._admission.max_body
        digits = announced.lstrip(b"0") or b"0"
        if len(digits) > MAX_DIGITS or int(digits) > limit:
            raise LargeBodyError(digits.decode(), limit)


def _check(request: HttpRequest, version: str) -> None:
    """Refuse heads that a proxy may frame or route differently than this server.

    Raises:
        RefusedError: naming the field and what is allowed.
    """
    host, coding = request.headers.get(b"host"), request.headers.get(b"transfer-encoding")
    if version not in VERSIONS or request.method == "CONNECT":
        message = f"{request.method} by HTTP/{version} is not answered; allowed: HTTP/1.1 and 1.0, no CONNECT"
    elif coding is not None and (coding.lower() != b"chunked" or version == "1.0"):
        message = f"Transfer-Encoding is {request.header(b'transfer-encoding')}; allowed: chunked, by HTTP/1.1"
    elif version == "1.1" if host is None else not HOST.fullmatch(host):
        message = f"Host is {request.header(b'host') or 'missing'}; allowed: one host with its port"
    else:
        return
    raise RefusedError(message)


def _split(target: bytes) -> tuple[str, bytes]:
    """Split a request's target into its decoded path and its query.

    Raises:
        RefusedError: when the path is not percent-encoded UTF-8.
    """
    path, _, query = target.partition(b"?")
    try:
        if not path.startswith((b"/", b"*")):
            path = httptools.parse_url(path).path or b"/"
        if b"%" not in path:
            return path.decode("ascii"), query
        if not NO_ESCAPE.search(path):
            return unquote_to_bytes(path).decode(), query
    except (ValueError, httptools.HttpParserInvalidURLError):
        pass
    shown = target[:200].decode("latin-1")
    raise RefusedError(f"the target is {shown}; allowed: UTF-8, with % before two hexadecimal digits")


def _large_head() -> LargeHeadError:
    return LargeHeadError(f"the head is too large; allowed: {HEAD_BYTES} bytes and {MAX_HEADERS} headers")
