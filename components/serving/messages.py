"""Requests and responses, without a framework: it would take more time than a score."""

import reprlib
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

import msgspec

JSON = "application/json"
MAX_SHOWN = 200  # characters of a request's value in a message
_REPR = reprlib.Repr()  # looks at the outside of a value only, however deep and long it is
_REPR.maxstring = _REPR.maxother = MAX_SHOWN
OK = int(HTTPStatus.OK)  # a member of an enumeration takes as long to read as an answer to encode


class RefusedError(Exception):
    """A request that is not answered as asked: an HTTP status, what is wrong, and what would be right."""

    def __init__(self, status: HTTPStatus, error: str, **details: str) -> None:
        super().__init__(error)
        self.status = status
        self.details = details
        self.headers: dict[str, str] = {}

    def response(self) -> "Response":
        """Return the answer: `error`, and the details beside it."""
        return Response.of({"error": str(self), **self.details}, self.status, self.headers)


class RequestError(RefusedError):
    """A request that cannot be scored: 400 with the field, its value and what is allowed."""

    def __init__(self, field: str, value: object, allowed: str) -> None:
        # texts of a request are shown shortened, and may hold what UTF-8 cannot
        self.field, self.value, self.allowed = _shown(field), _shown(value), _shown(allowed)
        message = f"{self.field} is {self.value}; allowed: {self.allowed}"
        super().__init__(HTTPStatus.BAD_REQUEST, message, field=self.field, value=self.value, allowed=self.allowed)


def unavailable(error: str) -> RefusedError:
    """Return a refusal that asks the client to come again: 503 with Retry-After."""
    refusal = RefusedError(HTTPStatus.SERVICE_UNAVAILABLE, error)
    refusal.headers["retry-after"] = "1"
    return refusal


def listed(name: str, given: object, most: int) -> list[Any]:
    """Return a request's list.

    Raises:
        RequestError: when it is none, empty, or longer than allowed.
    """
    if not isinstance(given, list) or not 1 <= len(given) <= most:
        value = f"a list of {len(given)}" if isinstance(given, list) else given
        raise RequestError(name, value, f"a list of 1 to {most} objects")
    return given


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else _REPR.repr(value)
    return (text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}...").encode("utf-8", "backslashreplace").decode()


class Response(msgspec.Struct):
    """An answer: a status, the body's bytes and type, more headers."""

    body: bytes
    status: int = OK
    media_type: str = JSON
    headers: Mapping[str, str] = MappingProxyType({})

    @classmethod
    def of(cls, content: object, status: int = OK, headers: Mapping[str, str] | None = None) -> "Response":
        """Return an answer in JSON."""
        return cls(msgspec.json.encode(content), status, JSON, headers or {})


class Request(msgspec.Struct):
    """A request.

    Attributes:
        method: GET, POST and the like.
        path: decoded, without a query.
        headers: by their lower-case names; the values of a name that comes twice are joined by a comma.
        keeps_alive: whether another request may follow on the connection.
        version: of HTTP.
        body: without its content coding.
        refusal: what it is answered in place of what it asks.
        id: by which logs know it.
        route: what answers it, as metrics call it.
        handler: what answers it.
    """

    method: str
    path: str
    headers: dict[bytes, bytes]
    keeps_alive: bool = True
    version: str = "1.1"
    body: bytes = b""
    refusal: RefusedError | None = None
    id: str = ""
    route: str = "none"
    handler: "Handler | None" = None

    def refuse(self, refusal: RefusedError) -> None:
        """Keep what is answered, without the frames that it was raised in: they refer to this request."""
        refusal.__traceback__ = refusal.__context__ = None
        self.refusal = refusal

    def header(self, name: bytes) -> str:
        """Return a header, empty where there is none."""
        value = self.headers.get(name)
        return value.decode("latin-1") if value else ""


Handler = Callable[[Request], Awaitable[Response]]


def decoded(body: bytes, allowed: str = "JSON") -> Any:
    """Return what a body of JSON holds.

    Args:
        body: as it came.
        allowed: what a body may be.

    Raises:
        RequestError: when it is not JSON.
    """
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError("body", str(error), allowed) from None
