"""Bodies in JSON."""

from typing import Any

import msgspec

from nightshift.serving.errors import RequestError


def decode(body: bytes, allowed: str = "JSON") -> Any:
    """Return the value of a body in JSON.

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


def check_list(name: str, value: object, limit: int) -> list[Any]:
    """Return a request's list.

    Raises:
        RequestError: when it is none, empty, or longer than the limit.
    """
    if not isinstance(value, list) or not 1 <= len(value) <= limit:
        shown = f"a list of {len(value)}" if isinstance(value, list) else value
        raise RequestError(name, shown, f"a list of 1 to {limit} objects")
    return value
