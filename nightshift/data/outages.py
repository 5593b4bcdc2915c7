"""Outages of databases, told from a user's mistakes by SQLSTATE, by drivers' codes and by classes of errors.

The words of a message decide nowhere a query has a part in them: a column may be called `refused`.
"""

import errno
import os
import re
from collections.abc import Iterator
from socket import gaierror
from typing import Any

# classes and codes of SQLSTATE: no connection, no resources, stopped by the operator, rolled back, locked, system error
STATES = ("08", "53", "57", "40001", "40P01", "55P03", "58")
SQLITE_CODES = {5, 6, 10, 15}  # busy, locked, input and output, protocol of locks; https://sqlite.org/rescode.html
ADBC_CODES = {"IO", "TIMEOUT", "CANCELLED"}
HTTP_CODES = {408, 429, 500, 502, 503, 504}
REASONS = {"rateLimitExceeded", "jobRateLimitExceeded", "backendError", "internalError"}  # BigQuery's, with 403
THROTTLES = {
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
    "RequestLimitExceeded",
}  # AWS's codes, with 400
# package -> classes of errors that have no code
CLASSES = {
    "snowflake": {
        "OperationalError",
        "BadGatewayError",
        "GatewayTimeoutError",
        "InternalServerError",
        "OtherHTTPRetryableError",
        "RequestExceedMaxRetryError",
        "RequestTimeoutError",
        "ServiceUnavailableError",
        "TooManyRequests",
    },
    "botocore": {"EndpointConnectionError", "ConnectTimeoutError", "ReadTimeoutError", "ConnectionClosedError"},
    "google": {"TransportError", "RetryError"},
    "requests": {"ConnectionError", "ConnectTimeout", "ReadTimeout"},
}
NETWORK = (
    errno.ECONNREFUSED,
    errno.ECONNRESET,
    errno.EHOSTUNREACH,
    errno.ENETUNREACH,
    errno.ENOENT,  # a Unix socket that is missing
    errno.ETIMEDOUT,
)
# libpq has no code of a connection that was not made, and DuckDB none at all: how their messages begin takes its place
UNCONNECTED = re.compile(
    r"IO: \[libpq\] Failed to connect: (?:could not translate host name|.*? failed: (?:"
    + "|".join(map(os.strerror, NETWORK))
    + "|timeout expired|server closed the connection|FATAL: +(?:"
    "the database system is |sorry, too many clients|too many connections for|remaining connection slots)))",
    re.DOTALL,
)
CONNECTING = "IO: [libpq] Failed to connect: "
DUCKDB = ("INTERNAL: IO Error: Could not set lock on file", "INTERNAL: TransactionContext Error: ")


def is_outage(error: BaseException) -> bool:
    """Return whether a driver's error may pass by itself, so that the same command may be run again."""
    return any(map(_may_pass, _unwrap(error)))


def _unwrap(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and those it was raised from, or holds."""
    yield error
    inner = [*(arg for arg in error.args if isinstance(arg, BaseException)), error.__cause__]
    for cause in inner:
        if cause is not None and cause is not error:
            yield from _unwrap(cause)


def _may_pass(error: Any) -> bool:
    if isinstance(error, ConnectionError | TimeoutError | gaierror):
        return True
    package = type(error).__module__.partition(".")[0]
    if package == "snowflake":  # a wrong password has the state of a lost connection
        return type(error).__name__ in CLASSES[package] or str(error.sqlstate).startswith(STATES[1:])
    if package == "adbc_driver_manager":
        return _adbc_may_pass(error)
    if package == "sqlite3":
        return getattr(error, "sqlite_errorcode", 0) & 0xFF in SQLITE_CODES
    return type(error).__name__ in CLASSES.get(package, ()) or _http_may_pass(error)


def _adbc_may_pass(error: Any) -> bool:
    if error.sqlstate:
        return bool(error.sqlstate.startswith(STATES))
    message = str(error)
    if message.startswith(CONNECTING):
        return UNCONNECTED.match(message) is not None
    return error.status_code.name in ADBC_CODES or message.startswith(DUCKDB)


def _http_may_pass(error: Any) -> bool:
    """Return whether an error of a cloud's HTTP API may pass, as google.api_core and botocore raise them."""
    response = getattr(error, "response", None)
    if isinstance(response, dict):
        status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
        return status in HTTP_CODES or response.get("Error", {}).get("Code") in THROTTLES
    details = getattr(error, "errors", None)
    # those of gRPC are errors themselves
    known = [detail for detail in details if isinstance(detail, dict)] if isinstance(details, list) else []
    return getattr(error, "code", None) in HTTP_CODES or any(detail.get("reason") in REASONS for detail in known)
