"""Bytes of a connection to requests, by httptools' parser; what HTTP/1.1 forbids is refused, and memory is bounded."""

import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Protocol
from urllib.parse import unquote_to_bytes

import httptools

from components.serving import encodings
from components.serving.messages import RefusedError, Request

HEAD_BYTES = 64 * 1024
MAX_HEADERS = 100
MAX_DIGITS = 19  # of a length that 64 bits hold
VERSIONS = frozenset({"1.0", "1.1"})
UNUSUAL = frozenset({b"content-encoding", b"expect", b"transfer-encoding"})  # headers that change how a body comes
HOST = re.compile(rb"[\w.~%!$&'()*+,;=:\[\]-]*", re.ASCII)
NO_ESCAPE = re.compile(rb"%(?![0-9a-fA-F]{2})")


class Admission(Protocol):
    """What decides about a request before its body is read.

    Attributes:
        max_body: bytes of a body, as sent and once it is decompressed.
    """

    max_body: int

    def admit(self, request: Request) -> None:
        """Find the handler of a request.

        Raises:
            RefusedError: when there is none, or the client may not ask it.
        """


class Parser:
    """Reads the requests of a connection, one after the other.

    Attributes:
        request: the newest one.
        is_within: whether a request has come in part.
        has_head: whether its head has come.
        awaits_continue: whether the client waits for a word before it sends the body.
    """

    def __init__(self, admission: Admission, deliver: Callable[[Request], None]) -> None:
        """Wait for the first request.

        Args:
            admission: asked once a head has come.
            deliver: takes a request, with its body or with what refuses it.
        """
        self._admission, self._deliver = admission, deliver
        self._begin()

    def _begin(self) -> None:
        self._parser = httptools.HttpRequestParser(self)
        self._silent = 0  # bytes since the last callback: the parser itself keeps as many
        self._clear()

    def _clear(self) -> None:
        self.request = Request("", "", {})
        self.is_within = self.has_head = self.awaits_continue = False
        self._target, self._fields, self._head_bytes = b"", 0, 0
        self._body, self._body_bytes = bytearray(), 0

    def feed(self, data: bytes) -> None:
        """Parse what has come, some KiB at most.

        Raises:
            RefusedError: when no further request can be read from the connection.
        """
        self._silent += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._ignore_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserCallbackError as error:
            raise error.__context__ or error from None
        except httptools.HttpParserError as error:
            raise RefusedError(HTTPStatus.BAD_REQUEST, f"this is not HTTP/1.1: {error}") from None
        if self._silent > HEAD_BYTES:
            raise _large_head()

    def close(self) -> None:
        """Let go of what refers to this parser, and of what it has read."""
        self._clear()
        del self._parser, self._deliver

    def on_message_begin(self) -> None:
        """Begin with a request."""
        self._silent, self.is_within = 0, True

    def on_url(self, part: bytes) -> None:
        """Take a part of the target."""
        self._target += part
        self._count(len(part))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; of those behind a body in chunks only the number counts."""
        self._silent = 0
        self._fields += 1
        self._count(len(name) + len(value))
        if not self.has_head:
            headers, name = self.request.headers, name.lower()
            headers[name] = b"%b, %b" % (headers[name], value) if name in headers else value

    def _count(self, size: int) -> None:
        self._head_bytes += size
        if self._fields > MAX_HEADERS or self._head_bytes > HEAD_BYTES:
            raise _large_head()

    def on_headers_complete(self) -> None:
        """Check a head. A request that is refused keeps the connection where its body can be skipped."""
        self._silent, self.has_head = 0, True
        parser, request = self._parser, self.request
        request.method, request.version = parser.get_method().decode(), parser.get_http_version()
        request.keeps_alive = parser.should_keep_alive()
        _check(request)
        try:
            request.path = _path(self._target)
            self._admission.admit(request)
            if not UNUSUAL.isdisjoint(request.headers):
                encodings.check(request.header(b"content-encoding"))
                self.awaits_continue = _awaits_continue(request)
        except RefusedError as refusal:
            if b"expect" in request.headers:  # nobody knows whether the body will come
                raise
            request.refuse(refusal)
        if length := request.headers.get(b"content-length"):
            self._check_length(length.strip())

    def on_body(self, part: bytes) -> None:
        """Take a part of a body; that of a refused request is not kept."""
        self._silent = 0
        self._body_bytes += len(part)
        if self._body_bytes > self._admission.max_body:
            raise encodings.large_body(f"over {self._admission.max_body}", self._admission.max_body)
        if self.request.refusal is None:
            self._body += part

    def on_message_complete(self) -> None:
        """Hand a request over."""
        if self._parser.should_upgrade():
            return
        request, request.body = self.request, bytes(self._body)
        if b"content-encoding" in request.headers and not request.refusal:
            self._decode(request)
        self._clear()
        self._deliver(request)

    def _decode(self, request: Request) -> None:
        coding, limit = request.header(b"content-encoding"), self._admission.max_body
        try:
            request.body = encodings.decoded(request.body, coding, limit)
        except RefusedError as refusal:
            request.body = b""
            request.refuse(refusal)

    def _ignore_upgrade(self, rest: bytes) -> None:
        """Parse a request again as one that wants no other protocol; its body is in the rest, or still to come."""
        request = self.request
        kept = [b"%b: %b\r\n" % header for header in request.headers.items() if header[0] != b"upgrade"]
        line = b"%b %b HTTP/%b\r\n" % (request.method.encode(), self._target, request.version.encode())
        self._begin()
        self.feed(b"".join([line, *kept, b"\r\n", rest]))

    def _check_length(self, announced: bytes) -> None:
        limit = self._admission.max_body
        digits = announced.lstrip(b"0") or b"0"
        if len(digits) > MAX_DIGITS or int(digits) > limit:
            raise encodings.large_body(digits.decode(), limit)


def _check(request: Request) -> None:
    """Refuse what another server on the way may frame or address otherwise than this one.

    Raises:
        RefusedError: 400.
    """
    version, host = request.version, request.headers.get(b"host")
    coding = request.headers.get(b"transfer-encoding")
    if version not in VERSIONS or request.method == "CONNECT":
        said = f"{request.method} by HTTP/{version} is not answered; allowed: HTTP/1.1 and 1.0, no CONNECT"
    elif coding is not None and (coding.lower() != b"chunked" or version == "1.0"):
        said = f"Transfer-Encoding is {request.header(b'transfer-encoding')}; allowed: chunked, by HTTP/1.1"
    elif version == "1.1" if host is None else not HOST.fullmatch(host):
        said = f"Host is {request.header(b'host') or 'missing'}; allowed: one host with its port"
    else:
        return
    raise RefusedError(HTTPStatus.BAD_REQUEST, said)


def _path(target: bytes) -> str:
    """Return the path of a request's target, decoded.

    Raises:
        RefusedError: 400.
    """
    try:
        if not target.startswith((b"/", b"*")):
            target = httptools.parse_url(target).path or b"/"
        path = target.partition(b"?")[0]
        if b"%" not in path:
            return path.decode("ascii")
        if not NO_ESCAPE.search(path):
            return unquote_to_bytes(path).decode()
    except (ValueError, httptools.HttpParserInvalidURLError):
        pass
    said = f"the target is {target[:200].decode('latin-1')}; allowed: UTF-8, with % before two hexadecimal digits"
    raise RefusedError(HTTPStatus.BAD_REQUEST, said)


def _awaits_continue(request: Request) -> bool:
    """Return whether the client asks before it sends the body, which HTTP/1.0 cannot.

    Raises:
        RefusedError: 417 when it expects something else.
    """
    expected = request.header(b"expect").lower()
    if not expected or request.version == "1.0":
        return False
    if expected != "100-continue":
        raise RefusedError(HTTPStatus.EXPECTATION_FAILED, f"Expect is {expected[:200]}; allowed: 100-continue")
    return True


def _large_head() -> RefusedError:
    said = f"the head is too large; allowed: {HEAD_BYTES} bytes and {MAX_HEADERS} headers"
    return RefusedError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, said)
