"""Requests and responses, without a framework, which would take more time than a score."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from http import HTTPStatus

import msgspec

from nightshift.serving import errors
from nightshift.serving.errors import MethodError, RefusedError

OK = int(HTTPStatus.OK)  # reading an enumeration's member takes as long as encoding an answer
STATUSES = {  # error class -> status, also of its subclasses
    RefusedError: HTTPStatus.BAD_REQUEST,
    errors.UnauthorizedError: HTTPStatus.UNAUTHORIZED,
    errors.NotFoundError: HTTPStatus.NOT_FOUND,
    errors.MethodError: HTTPStatus.METHOD_NOT_ALLOWED,
    errors.SlowRequestError: HTTPStatus.REQUEST_TIMEOUT,
    errors.NoStateError: HTTPStatus.CONFLICT,
    errors.LargeBodyError: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    errors.EncodingError: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    errors.ContentTypeError: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    errors.CrossSiteError: HTTPStatus.FORBIDDEN,
    errors.ExpectationError: HTTPStatus.EXPECTATION_FAILED,
    errors.NoScoreError: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.LargeHeadError: HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
    errors.OverloadedError: HTTPStatus.SERVICE_UNAVAILABLE,
}
HEADERS = {
    errors.UnauthorizedError: {"www-authenticate": "Bearer"},
    errors.EncodingError: {"accept-encoding": "gzip, deflate"},
    errors.OverloadedError: {"retry-after": "1"},
}


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
        status = next(STATUSES[base] for base in type(error).__mro__ if base in STATUSES)
        response = cls.json({"error": str(error), **error.details}, int(status))
        response.headers |= HEADERS.get(type(error), {})
        if isinstance(error, MethodError):
            response.headers["allow"] = error.allowed
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
