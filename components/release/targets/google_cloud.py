"""What Vertex AI and Cloud Run share: how clients are called, what errors mean, and what is waited for."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import google.auth
from google.api_core import exceptions
from google.api_core.future.polling import DEFAULT_POLLING
from google.api_core.retry import Retry, if_exception_type
from google.auth.exceptions import GoogleAuthError, TransportError

from components.release.targets import BadVersionError
from nightshift.runtime.errors import UnavailableError, UserError, may_pass

SCOPE = "https://www.googleapis.com/auth/cloud-platform"
CALL_SECONDS = 60.0
POLLING = DEFAULT_POLLING.with_timeout(3600.0)  # a change takes minutes


class ResourceMissingError(UserError):
    """There is nothing of the name."""


class TakenError(UnavailableError):
    """There is something of the name, or it is being created; the next try finds it."""


class BadRequestError(UserError):
    """The request or the state of what it is about does not fit."""


class _ChangingError(Exception):
    """A resource is not yet what it is waited for."""


class Api:
    """A platform's API."""

    def __init__(self, platform: str, polling: Retry = POLLING) -> None:
        """Makes no calls.

        Args:
            platform: what people call it.
            polling: how often a change is looked at, and how long.
        """
        self._platform, self._polling = platform, polling

    def call(self, method: Callable[..., Any], request: Any) -> Any:
        """Call a method of a client.

        Raises:
            UserError: when the platform refuses, as `ResourceMissingError` or `BadRequestError` where it says so.
            UnavailableError: when it does not answer, may answer later, or somebody else was faster.
        """
        with self._translate_errors():
            return method(request=request, timeout=CALL_SECONDS)

    def find(self, get: Callable[..., Any], name: str) -> Any:
        """Return the resource of a name, None when there is none."""
        try:
            return self.call(get, {"name": name})
        except ResourceMissingError:
            return None

    def list_all(self, method: Callable[..., Any], request: Any) -> list[Any]:
        """Return what all pages of a list hold."""
        with self._translate_errors():
            return list(method(request=request, timeout=CALL_SECONDS))

    def change(self, begin: Callable[..., Any], request: Any) -> Any:
        """Begin a change, wait for the end of its operation, and return its result.

        Raises:
            BadVersionError: when a version does not start.
            UserError: when the change fails otherwise.
            UnavailableError: when it takes too long.
        """
        operation = self.call(begin, request)
        with self._translate_errors():
            try:
                return operation.result(polling=self._polling)
            except exceptions.FailedPrecondition as error:
                raise BadVersionError(f"{self._platform} refuses: {error}; look at its log") from None

    def wait(self, is_so: Callable[[], bool], state: str) -> None:
        """Wait for a change that another process has begun.

        Raises:
            UnavailableError: when it takes too long.
        """

        def look() -> None:
            if not is_so():
                raise _ChangingError(state)

        with self._translate_errors():
            self._polling.with_predicate(if_exception_type(_ChangingError))(look)()

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except exceptions.GoogleAPIError as error:
            raise self._translate(error) from None
        except GoogleAuthError as error:
            raise auth_error(error, f"{self._platform} cannot be called") from None
        except TimeoutError as error:
            raise UnavailableError(f"{self._platform}: {str(error).rstrip('.')}; run it again") from None

    def _translate(self, error: Any) -> Exception:
        if isinstance(error, exceptions.NotFound):
            return ResourceMissingError(f"{self._platform} refuses: {error}")
        if isinstance(error, exceptions.AlreadyExists):
            return TakenError(f"{self._platform}: {error}; run it again")
        if isinstance(error, exceptions.RetryError):
            return UnavailableError(f"{self._platform}: {error.cause} for too long; run it again")
        if isinstance(error, exceptions.Aborted) or may_pass(getattr(error, "code", None) or 500):
            return UnavailableError(f"{self._platform}: {error}; run it again")
        kind = BadRequestError if isinstance(error, exceptions.BadRequest) else UserError
        return kind(f"{self._platform} refuses: {error}; look at its log")


def find_credentials() -> Any:
    """Return the credentials that Google's libraries find.

    Raises:
        UserError: when there are none.
        UnavailableError: when the server that has them does not answer.
    """
    try:
        return google.auth.default(scopes=[SCOPE])[0]
    except GoogleAuthError as error:
        raise auth_error(error, "no credentials for Google Cloud") from None


def auth_error(error: BaseException, message: str) -> UserError | UnavailableError:
    """Return what it means that there are no credentials or no token: a fault of the transport may pass."""
    is_transport = isinstance(error, TransportError) or isinstance(error.__cause__, TransportError)
    may_pass = is_transport or getattr(error, "retryable", False)
    return UnavailableError(f"{message}: {error}; run it again") if may_pass else UserError(f"{message}: {error}")
