"""The connection to an MLflow server; MLflow, which takes seconds to import, is imported on use."""

import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from nightshift.runtime.errors import UnavailableError, UserError, may_pass

if TYPE_CHECKING:
    from mlflow import MlflowClient

# read by MLflow on import; its default of seven retries takes minutes
SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}


@contextmanager
def connect(url: str, role: str) -> Iterator["MlflowClient"]:
    """Yield the client of a server; what fails there is explained.

    Args:
        url: of the server.
        role: of the server, for messages.

    Raises:
        UserError: when the server refuses.
        UnavailableError: when it does not answer, or fails.
    """
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
    from mlflow.exceptions import MlflowException
    from requests import RequestException

    try:
        yield _make_client(url)
    except (MlflowException, RequestException) as error:
        raise _explain(url, role, error) from error


def _explain(url: str, role: str, error: Any) -> UserError | UnavailableError:
    message = f"{role} {url}: {' '.join(str(error).split())[:300] or type(error).__name__}"
    health = _health(url) if _is_passing(error) else Health.REFUSING
    if health is Health.REFUSING:
        return UserError(
            f"{message}; check what the server says, and the login in MLFLOW_TRACKING_USERNAME and _PASSWORD"
        )
    if health is Health.SILENT:
        return UnavailableError(f"{message}; check that the server runs, then run the same command again")
    part = "artifact store" if "mlflow-artifacts" in str(error) else "database"
    return UnavailableError(
        f"{message}; the server runs and answers other requests, its {part} failed: look in the server's log, fix what "
        "it names (a bucket, a right to write, a full disk), then run the same command again"
    )


class Health(StrEnum):
    """An MLflow server's reaction to a simple request."""

    ANSWERING = "answering"
    REFUSING = "refusing"  # or it is no MLflow, such as a proxy's login
    SILENT = "silent"


def _is_passing(error: Any) -> bool:
    """Return whether a later request may succeed; a request that never arrived may."""
    from requests import RequestException

    if isinstance(error, RequestException):
        return error.response is None or may_pass(error.response.status_code)
    return may_pass(error.get_http_status_code())


def _health(url: str) -> Health:
    """Send a simple request to tell a silent server from a refusal.

    MLflow's client reports unknown statuses, and content other than its JSON, as internal errors.
    """
    from mlflow.exceptions import MlflowException
    from mlflow.utils.credentials import get_default_host_creds
    from mlflow.utils.rest_utils import http_request

    request = {"endpoint": "/api/2.0/mlflow/experiments/search", "method": "GET", "params": {"max_results": 1}}
    try:
        response = http_request(get_default_host_creds(url), raise_on_status=False, **request)
    except MlflowException:
        return Health.SILENT
    if not response.ok:
        return Health.SILENT if may_pass(response.status_code) else Health.REFUSING
    return Health.ANSWERING if "json" in response.headers.get("Content-Type", "") else Health.REFUSING


@functools.cache
def _make_client(url: str) -> "MlflowClient":
    from mlflow import MlflowClient

    return MlflowClient(url)
