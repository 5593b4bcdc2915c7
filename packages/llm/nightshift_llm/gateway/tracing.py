"""The ids that name a request in the logs of clients, gateway and engines."""

import re
import secrets
from typing import NamedTuple

from nightshift.http.messages import HttpRequest

REQUEST_ID = re.compile(rb"[\w.:-]{1,128}")
# W3C's Trace Context: no version ff, no ids of zeros, and more fields in versions to come alone
TRACEPARENT = re.compile(
    rb"(?:00-%(ids)b|(?!00|ff)[0-9a-f]{2}-%(ids)b(?:-[\x21-\x7e]*)?)"
    % {b"ids": rb"(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}"}
)
TRACESTATE = re.compile(rb"[\x20-\x7e]{1,512}")


class RequestTrace(NamedTuple):
    """The ids of a request.

    Attributes:
        request_id: the client's X-Request-Id, or a new one.
        traceparent: the client's, in W3C's format; empty without a valid one.
        tracestate: the client's header beside its traceparent.
    """

    request_id: str = ""
    traceparent: str = ""
    tracestate: str = ""

    @property
    def answer_headers(self) -> dict[str, str]:
        """The headers for the client."""
        return self._headers("x-request-id", "traceparent")

    @property
    def engine_headers(self) -> dict[str, str]:
        """The headers for the engine."""
        return self._headers("x-request-id", "traceparent", "tracestate")

    def _headers(self, *names: str) -> dict[str, str]:
        values = {"x-request-id": self.request_id, "traceparent": self.traceparent, "tracestate": self.tracestate}
        return {name: values[name] for name in names if values[name]}


UNTRACED = RequestTrace()


def read_trace(request: HttpRequest) -> RequestTrace:
    """Return the valid ids of a request's headers."""
    request_id = request.id or _match(REQUEST_ID, request, b"x-request-id") or secrets.token_hex(16)
    if not (traceparent := _match(TRACEPARENT, request, b"traceparent")):
        return RequestTrace(request_id)
    return RequestTrace(request_id, traceparent, _match(TRACESTATE, request, b"tracestate"))


def _match(pattern: re.Pattern[bytes], request: HttpRequest, name: bytes) -> str:
    return request.header(name) if pattern.fullmatch(request.headers.get(name, b"")) else ""
