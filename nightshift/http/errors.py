"""Reasons to refuse a request, each with the status and the headers of its response."""

import reprlib
from collections.abc import Mapping
from http import HTTPStatus

MAX_SHOWN = 200  # characters of a request's value in a message
_REPR = reprlib.Repr()  # bounded: reads only the first levels and characters of a value
_REPR.maxstring = _REPR.maxother = MAX_SHOWN


class RefusedError(Exception):
    """A refused request: the mistake and what is allowed.

    Attributes:
        status: HTTP status of the response.
        headers: further headers of the response, by lower-case name.
        details: the message's values by name, for programs.
    """

    status = HTTPStatus.BAD_REQUEST
    headers: Mapping[str, str] = {}

    def __init__(self, message: str, **details: str) -> None:
        super().__init__(message)
        self.details = details


class RequestError(RefusedError):
    """An invalid field of a request: its name, its value and what is allowed."""

    def __init__(self, field: str, value: object, allowed: str) -> None:
        # a request's texts may be long, and may hold surrogates that UTF-8 cannot encode
        self.field, self.value, self.allowed = _shorten(field), _shorten(value), _shorten(allowed)
        message = f"{self.field} is {self.value}; allowed: {self.allowed}"
        super().__init__(message, field=self.field, value=self.value, allowed=self.allowed)


class UnauthorizedError(RefusedError):
    """A client without the token."""

    status = HTTPStatus.UNAUTHORIZED
    headers: Mapping[str, str] = {"www-authenticate": "Bearer"}


class NotFoundError(RefusedError):
    """A path, a model or a version that is not served."""

    status = HTTPStatus.NOT_FOUND


class MethodError(RefusedError):
    """A method that a path does not have.

    Attributes:
        headers: the path's methods, separated by commas.
    """

    status = HTTPStatus.METHOD_NOT_ALLOWED

    def __init__(self, path: str, method: str, allowed: str) -> None:
        super().__init__(f"{path} has no {method}; allowed: {allowed}")
        self.headers = {"allow": allowed}


class SlowRequestError(RefusedError):
    """A request that took too long to arrive."""

    status = HTTPStatus.REQUEST_TIMEOUT


class LargeBodyError(RefusedError):
    """A body beyond the limit."""

    status = HTTPStatus.REQUEST_ENTITY_TOO_LARGE

    def __init__(self, size: str, limit: int) -> None:
        super().__init__(f"the body has {size} bytes; allowed: at most {limit}; send fewer rows at a time")


class LargeHeadError(RefusedError):
    """A head beyond the limits."""

    status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE


class EncodingError(RefusedError):
    """An unknown content encoding."""

    status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE
    headers: Mapping[str, str] = {"accept-encoding": "gzip, deflate"}


class ContentTypeError(RequestError):
    """A body of a type that the route does not take."""

    status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE


class CrossSiteError(RequestError):
    """A request from a page of another site."""

    status = HTTPStatus.FORBIDDEN


class ExpectationError(RefusedError):
    """An unknown expectation."""

    status = HTTPStatus.EXPECTATION_FAILED


class OverloadedError(RefusedError):
    """A full queue, or a store that accepts nothing: the same request may succeed later."""

    status = HTTPStatus.SERVICE_UNAVAILABLE
    headers: Mapping[str, str] = {"retry-after": "1"}


def _shorten(value: object) -> str:
    text = value if isinstance(value, str) else _REPR.repr(value)
    return (text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}...").encode("utf-8", "backslashreplace").decode()
