"""What the API of a Kubernetes cluster refuses, or does not answer, as our errors."""

from collections.abc import Callable
from http import HTTPStatus
from typing import TypeVar

from components.common.errors import UnavailableError, UserError, may_pass

Answer = TypeVar("Answer")


class MissingError(UserError):
    """What was asked for is not there."""


def call(what: str, name: str, request: Callable[[], Answer]) -> Answer:
    """Return what the API answers.

    Args:
        what: the verb and the plural, such as `get inferenceservices`.
        name: what it is about, or whom it is for.
        request: calls a client of the `kubernetes` package.

    Raises:
        MissingError: when there is no object of that name.
        UserError: when the API refuses.
        UnavailableError: when it does not answer, or somebody else has changed the object meanwhile.
    """
    from kubernetes.client.exceptions import ApiException
    from urllib3.exceptions import HTTPError

    try:
        return request()
    except ApiException as error:
        if error.status == HTTPStatus.NOT_FOUND and name in str(error.body):
            raise MissingError(name) from None
        said = f"Kubernetes refuses to {what} for {name!r}: {error.reason}; {error.body}"
        if error.status == HTTPStatus.CONFLICT or may_pass(error.status):
            raise UnavailableError(f"{said}; run it again") from None
        raise UserError(said) from None
    except HTTPError as error:
        raise UnavailableError(f"Kubernetes does not answer: {error}; run it again") from None
