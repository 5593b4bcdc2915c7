"""HTTP requests and responses over ASGI, without a framework: it would take more time than a score."""

from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any

import msgspec

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Scope]]
Send = Callable[[Scope], Awaitable[None]]

HEAD = "nightshift.head"  # of a scope
JSON = "application/json"
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
    text = value if isinstance(value, str) else repr(value)
    return (text if len(text) <= 200 else f"{text[:200]}...").encode("utf-8", "backslashreplace").decode()


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

    async def send(self, send: Send, request_id: str) -> None:
        """Send it, with the request's id."""
        headers = [
            (b"content-type", self.media_type.encode()),
            (b"content-length", b"%d" % len(self.body)),
            (b"x-request-id", request_id.encode("latin-1")),
        ]
        if self.headers:
            headers += [(name.encode(), value.encode("latin-1")) for name, value in self.headers.items()]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


class Head(msgspec.Struct):
    """What a request says before its body.

    Attributes:
        method: GET, POST and the like.
        path: decoded, without a query.
        headers: by their lower-case names; the last of a name counts.
        size: bytes of the body as announced, 0 where they are not.
        route: what answers it, as metrics call it.
        handler: what answers it, once it is known that it may.
    """

    method: str
    path: str
    headers: dict[bytes, bytes]
    size: int
    route: str = "none"
    handler: "Handler | None" = None

    @classmethod
    def of(cls, scope: Scope) -> "Head":
        """Return a scope's head, which stays there: a connection uses a scope again for requests with the same head."""
        found: Head | None = scope.get(HEAD)
        if found is None:
            headers = dict(scope["headers"])
            announced = headers.get(b"content-length", b"")
            size = int(announced) if announced.isdigit() else 0
            found = scope[HEAD] = cls(scope["method"], scope["path"], headers, size)
        return found


class Request:
    """A request, whose body is read when it is asked for.

    Attributes:
        head: what comes before the body.
        id: by which logs know it.
    """

    __slots__ = ("_largest", "_receive", "head", "id")

    def __init__(self, scope: Scope, receive: Receive, largest: int) -> None:
        self.head = Head.of(scope)
        self._receive, self._largest = receive, largest
        self.id = ""

    def header(self, name: bytes) -> str:
        """Return a header, empty where there is none."""
        value = self.head.headers.get(name)
        return value.decode("latin-1") if value else ""

    async def body(self) -> bytes:
        """Read the body.

        Raises:
            RefusedError: 413 when it is larger than allowed, as its length says or as it turns out to be.
        """
        if self.head.size > self._largest:
            raise self._too_large(str(self.head.size))
        message = await self._receive()
        body: bytes = message.get("body", b"")
        if message.get("more_body"):
            body = await self._rest(body)
        if len(body) > self._largest:
            raise self._too_large(f"over {self._largest}")
        return body

    async def _rest(self, first: bytes) -> bytes:
        parts, size, more = [first], len(first), True
        while more and size <= self._largest:
            message = await self._receive()
            parts.append(message.get("body", b""))
            size, more = size + len(parts[-1]), message.get("more_body", False)
        return b"".join(parts)

    def _too_large(self, size: str) -> RefusedError:
        said = f"the body has {size} bytes; allowed: at most {self._largest}; send fewer rows at a time"
        return RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, said)


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
