"""Bodies in JSON."""

from typing import Any

import msgspec

from nightshift.http.errors import RequestError


def decode(body: bytes, allowed: str = "JSON") -> Any:
    """Parse a body in JSON.

    Args:
        body: raw bytes.
        allowed: the formats of a body, for the error.

    Raises:
        RequestError: when it is not JSON.
    """
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError("body", str(error), allowed) from None


def check_list(name: str, value: object, limit: int) -> list[Any]:
    """Check a list of a request.

    Raises:
        RequestError: when it is not a list, empty, or longer than the limit.
    """
    if not isinstance(value, list) or not 1 <= len(value) <= limit:
        shown = f"a list of {len(value)}" if isinstance(value, list) else value
        raise RequestError(name, shown, f"a list of 1 to {limit} objects")
    return value
