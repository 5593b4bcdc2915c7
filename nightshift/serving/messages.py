"""Requests and responses, without a framework: it would take more time than a score."""

from collections.abc import Awaitable, Callable
from http import HTTPStatus

import msgspec

from nightshift.serving import errors
from nightshift.serving.errors import MethodError, RefusedError

OK = int(HTTPStatus.OK)  # a member of an enumeration takes as long to read as an answer to encode
STATUSES = {  # of a class and of those derived from it
    RefusedError: HTTPStatus.BAD_REQUEST,
    errors.UnauthorizedError: HTTPStatus.UNAUTHORIZED,
    errors.NotFoundError: HTTPStatus.NOT_FOUND,
    errors.MethodError: HTTPStatus.METHOD_NOT_ALLOWED,
    errors.SlowRequestError: HTTPStatus.REQUEST_TIMEOUT,
    errors.NoStateError: HTTPStatus.CONFLICT,
    errors.LargeBodyError: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    errors.EncodingError: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
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


class Response(msgspec.Struct):
    """A response.

    Attributes:
        body: as it is sent, without a content coding.
        status: of HTTP.
        headers: by their lower-case names, without those that the transport adds: length, date, connection.
    """

    body: bytes
    status: int = OK
    headers: dict[str, str] = {}

    @classmethod
    def json(cls, content: object, status: int = OK) -> "Response":
        """Return a response in JSON."""
        return cls(msgspec.json.encode(content), status, {"content-type": "application/json"})

    @classmethod
    def refusal(cls, error: RefusedError) -> "Response":
        """Return the response to a request that is refused: `error`, and the details beside it."""
        status = next(STATUSES[base] for base in type(error).__mro__ if base in STATUSES)
        response = cls.json({"error": str(error), **error.details}, int(status))
        response.headers |= HEADERS.get(type(error), {})
        if isinstance(error, MethodError):
            response.headers["allow"] = error.allowed
        return response


class Request(msgspec.Struct):
    """A request.

    Attributes:
        method: GET, POST and the like.
        path: decoded, without the query.
        query: as it came, without the question mark.
        headers: by their lower-case names; the values of a name that comes twice are joined by a comma.
        body: as it came.
        refusal: why it is not answered as asked; its body is not kept.
        route: the path that metrics count it under.
        handler: answers it.
        id: names it in logs.
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
        """Keep why it is refused, without the frames in which that was raised: they refer to this request."""
        error.__traceback__ = error.__context__ = None
        self.refusal = error

    def header(self, name: bytes) -> str:
        """Return a header, empty where there is none."""
        value = self.headers.get(name)
        return value.decode("latin-1") if value else ""


Handler = Callable[[Request], Awaitable[Response]]
