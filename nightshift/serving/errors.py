"""Why a request is not answered as asked, without HTTP: `messages.py` maps these to statuses."""

import reprlib

MAX_SHOWN = 200  # characters of a request's value in a message
_REPR = reprlib.Repr()  # looks at the outside of a value only, however deep and long it is
_REPR.maxstring = _REPR.maxother = MAX_SHOWN


class RefusedError(Exception):
    """A request that is not answered as asked: what is wrong, and what would be right.

    Attributes:
        details: more about it, by name, for programs.
    """

    def __init__(self, message: str, **details: str) -> None:
        super().__init__(message)
        self.details = details


class RequestError(RefusedError):
    """A field of a request that cannot be scored: its name, its value and what is allowed."""

    def __init__(self, field: str, value: object, allowed: str) -> None:
        # texts of a request are shown shortened, and may hold what UTF-8 cannot
        self.field, self.value, self.allowed = _shown(field), _shown(value), _shown(allowed)
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
    """A content encoding that is not known."""


class ExpectationError(RefusedError):
    """An expectation that is not known."""


class NoScoreError(RefusedError):
    """A row for which the model has no finite score."""


class OverloadedError(RefusedError):
    """Too much waits already, or the online state takes nothing in: the same request may be answered later."""


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else _REPR.repr(value)
    return (text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}...").encode("utf-8", "backslashreplace").decode()
