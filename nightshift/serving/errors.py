"""Reasons to refuse a request, without HTTP: `messages.py` maps them to statuses."""

import reprlib

MAX_SHOWN = 200  # characters of a request's value in a message
_REPR = reprlib.Repr()  # bounded: reads only the first levels and characters of a value
_REPR.maxstring = _REPR.maxother = MAX_SHOWN


class RefusedError(Exception):
    """A refused request: the mistake and what is allowed.

    Attributes:
        details: the same by name, for programs.
    """

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


class NotFoundError(RefusedError):
    """A path, a model or a version that is not served."""


class MethodError(RefusedError):
    """A method that a path does not have.

    Attributes:
        allowed: the path's methods, separated by commas.
    """

    def __init__(self, path: str, method: str, allowed: str) -> None:
        super().__init__(f"{path} has no {method}; allowed: {allowed}")
        self.allowed = allowed


class SlowRequestError(RefusedError):
    """A request that took too long to arrive."""


class NoStateError(RefusedError):
    """Raw events, sent to a server without an online state."""


class LargeBodyError(RefusedError):
    """A body beyond the limit."""

    def __init__(self, size: str, limit: int) -> None:
        super().__init__(f"the body has {size} bytes; allowed: at most {limit}; send fewer rows at a time")


class LargeHeadError(RefusedError):
    """A head beyond the limits."""


class EncodingError(RefusedError):
    """An unknown content encoding."""


class ContentTypeError(RequestError):
    """A body of a type that the route does not take."""


class CrossSiteError(RequestError):
    """A request from a page of another site."""


class ExpectationError(RefusedError):
    """An unknown expectation."""


class NoScoreError(RefusedError):
    """A row for which the model has no finite score."""


class OverloadedError(RefusedError):
    """A full queue, or an online state that accepts nothing: the same request may succeed later."""


def _shorten(value: object) -> str:
    text = value if isinstance(value, str) else _REPR.repr(value)
    return (text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}...").encode("utf-8", "backslashreplace").decode()
