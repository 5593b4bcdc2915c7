"""Content codings of request bodies: gzip and deflate, as clients of Triton and KServe send them."""

import zlib

from nightshift.http.errors import EncodingError, LargeBodyError, RefusedError

IDENTITY = ("", "identity")
GZIP = ("gzip", "x-gzip")
DEFLATE = "deflate"
ANY_HEADER = 32 + zlib.MAX_WBITS  # gzip's or zlib's
NO_HEADER = -zlib.MAX_WBITS  # as some clients send deflate
ZLIB_METHOD = 8  # in the first byte of zlib's header


def check(coding: str) -> None:
    """Refuse an unknown coding, before the body is read.

    Raises:
        EncodingError: when the coding is neither gzip nor deflate.
    """
    if coding.lower() not in (*IDENTITY, *GZIP, DEFLATE):
        raise EncodingError(f"Content-Encoding is {coding[:200]}; allowed: gzip or deflate")


def decode(body: bytes, coding: str, limit: int) -> bytes:
    """Decompress a body.

    Args:
        body: compressed bytes.
        coding: one that `check` knows.
        limit: most bytes of the result; more are not decompressed.

    Raises:
        RefusedError: when it is damaged.
        LargeBodyError: when it is larger.
    """
    if coding.lower() in IDENTITY or not body:
        return body
    try:
        inflater = zlib.decompressobj(_window(body, coding))
        data = inflater.decompress(body, limit + 1)
        if len(data) > limit:
            raise LargeBodyError(f"over {limit} once decompressed", limit)
        if not inflater.eof or inflater.unused_data:
            raise zlib.error("it ends early, or more follows")
    except zlib.error as error:
        raise RefusedError(f"the body is not {coding}: {error}") from None
    return data


def _window(body: bytes, coding: str) -> int:
    is_bare = coding.lower() == DEFLATE and body[0] & 0x0F != ZLIB_METHOD
    return NO_HEADER if is_bare else ANY_HEADER
