"""Errors in the format of OpenAI's API: `{"error": {"message", "type", "param", "code"}}`."""

from http import HTTPStatus

import msgspec

from nightshift.http.errors import RefusedError
from nightshift.http.messages import HttpResponse

FINAL = {"x-should-retry": "false"}  # OpenAI's clients obey it
DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)  # errors of untrusted JSON


class GatewayError(RefusedError):
    """A refused request, as an error of OpenAI's API.

    Attributes:
        status: HTTP status.
        code: machine-readable reason.
        param: field of the request.
        retry_after: seconds after which a retry may succeed; None: a retry does not help.
        is_final: whether clients should not retry: a retry would fail the same way, or cost as much again.
    """

    status, code, is_final = HTTPStatus.BAD_REQUEST, "invalid_value", False

    def __init__(self, message: str, param: str | None = None, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.param, self.retry_after = param, retry_after


class UnsupportedError(GatewayError):
    """A field or a kind of content that is not supported."""

    code = "unsupported_value"


class UnknownModelError(GatewayError):
    """A model that no replica serves."""

    status, code = HTTPStatus.NOT_FOUND, "model_not_found"


class InvalidKeyError(GatewayError):
    """A missing or unknown key."""

    status, code = HTTPStatus.UNAUTHORIZED, "invalid_api_key"


class BudgetError(GatewayError):
    """A request beyond its key's tokens of the day."""

    status, code, is_final = HTTPStatus.TOO_MANY_REQUESTS, "insufficient_quota", True


class RateError(GatewayError):
    """A request beyond its key's requests of the minute."""

    status, code = HTTPStatus.TOO_MANY_REQUESTS, "rate_limit_exceeded"


class NoReplicaError(GatewayError):
    """No healthy replica of a model."""

    status, code = HTTPStatus.SERVICE_UNAVAILABLE, "no_replica"


class LedgerError(GatewayError):
    """A ledger that cannot be written, such as on a full disk: no request is admitted."""

    status, code = HTTPStatus.SERVICE_UNAVAILABLE, "ledger_unavailable"


class BadGatewayError(GatewayError):
    """All attempts failed before the first byte of an answer."""

    status, code = HTTPStatus.BAD_GATEWAY, "replica_failed"


class OddAnswerError(GatewayError):
    """An answer that cannot be passed on; its work is charged."""

    status, code, is_final = HTTPStatus.BAD_GATEWAY, "invalid_answer", True


class SilenceError(GatewayError):
    """A replica that has timed out; its work is charged."""

    status, code, is_final = HTTPStatus.GATEWAY_TIMEOUT, "replica_silent", True


def render_refusal(error: RefusedError) -> HttpResponse:
    """Return the response to a refused request; the transport's own refusals keep their statuses."""
    if not isinstance(error, GatewayError):
        response = HttpResponse.refusal(error)
        return _render(response.status, str(error), name_refusal(error), None, response.headers)
    headers = {} if error.retry_after is None else {"retry-after": str(error.retry_after)}
    headers |= FINAL if error.is_final else {}
    return _render(int(error.status), str(error), error.code, error.param, headers)


def name_refusal(error: RefusedError) -> str:
    """Return the machine-readable code of a refusal."""
    if isinstance(error, GatewayError):
        return error.code
    is_overload = HttpResponse.refusal(error).status >= HTTPStatus.INTERNAL_SERVER_ERROR
    return "overloaded" if is_overload else "invalid_request"


def render_failure() -> HttpResponse:
    """Return the response when the gateway itself has failed."""
    return _render(500, "internal error", "internal_error", None, {})


def _render(status: int, message: str, code: str, param: str | None, headers: dict[str, str]) -> HttpResponse:
    response = HttpResponse.json({"error": describe_error(status, message, code, param)}, status)
    response.headers |= headers | {"content-type": "application/json"}
    return response


def describe_error(status: int, message: str, code: str, param: str | None = None) -> dict[str, str | None]:
    """Return the `error` object."""
    kind = "server_error" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "invalid_request_error"
    return {"message": message, "type": kind, "param": param, "code": code}
