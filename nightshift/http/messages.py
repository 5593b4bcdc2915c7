"""Requests and responses, without a framework, which would take more time than a score."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from http import HTTPStatus

import msgspec

from nightshift.http.errors import RefusedError

OK = int(HTTPStatus.OK)  # reading an enumeration's member takes as long as encoding an answer

Stream = AsyncGenerator[bytes, None]


class HttpResponse(msgspec.Struct):
    """A response.

    Attributes:
        body: bytes to send, without a content coding.
        status: HTTP status code.
        headers: lower-case name -> value; the transport adds length, date and connection.
        stream: pieces of the body, none empty, that are sent as they come; in place of `body`.
    """

    body: bytes
    status: int = OK
    headers: dict[str, str] = {}
    stream: Stream | None = None

    @classmethod
    def json(cls, content: object, status: int = OK) -> "HttpResponse":
        """Return a response in JSON."""
        return cls(msgspec.json.encode(content), status, {"content-type": "application/json"})

    @classmethod
    def refusal(cls, error: RefusedError) -> "HttpResponse":
        """Return the response to a refused request: `error` and its details."""
        response = cls.json({"error": str(error), **error.details}, int(error.status))
        response.headers |= error.headers
        return response


class HttpRequest(msgspec.Struct):
    """A request.

    Attributes:
        method: GET, POST and the like.
        path: decoded, without the query.
        query: raw, without the question mark.
        headers: lower-case name -> value; values of a repeated name are joined by a comma.
        body: raw bytes.
        refusal: the reason to refuse it, None to answer it; a refused body is dropped.
        route: path under which metrics count it.
        handler: function that answers it.
        id: its name in logs.
    """

    method: str = ""
    path: str = ""
    query: bytes = b""
    headers: dict[bytes, bytes] = {}
    body: bytes = b""
    refusal: RefusedError | None = None
    route: str = "none"
    handler: "Handler | None" = None
    id: str = ""

    def refuse(self, error: RefusedError) -> None:
        """Refuse the request; the error's frames are dropped, since they refer to this request."""
        error.__traceback__ = error.__context__ = None
        self.refusal = error

    def header(self, name: bytes) -> str:
        """Return a header's value; empty without one."""
        value = self.headers.get(name)
        return value.decode("latin-1") if value else ""


Handler = Callable[[HttpRequest], Awaitable[HttpResponse]]
