"""A Kubernetes cluster: which account a step needs there, and what its API refuses or does not answer as our errors."""

from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeVar

from nightshift.errors import UnavailableError, UserError, may_pass

if TYPE_CHECKING:
    from kubernetes.client.exceptions import ApiException

Answer = TypeVar("Answer")
# annotation of a step's pod: the service account it needs; kfp-kubernetes 2.17 has no field for it
ACCOUNT = "nightshift/service-account"
# of a pod as of anything else: the quota of its namespace is used up, and there may be room later
FULL = "is forbidden: exceeded quota"


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
        UnavailableError: when it does not answer, a quota is used up, or the object has changed meanwhile.
    """
    from kubernetes.client.exceptions import ApiException
    from urllib3.exceptions import HTTPError

    try:
        return request()
    except ApiException as error:
        if error.status == HTTPStatus.NOT_FOUND and name in str(error.body):
            raise MissingError(name) from None
        message = f"Kubernetes refuses to {what} for {name!r}: {error.reason}; {error.body}"
        if error.status == HTTPStatus.CONFLICT or may_pass(error.status) or is_full(error):
            raise UnavailableError(f"{message}; run it again") from None
        raise UserError(message) from None
    except HTTPError as error:
        raise UnavailableError(f"Kubernetes does not answer: {error}; run it again") from None


def is_full(error: "ApiException") -> bool:
    """Return whether the API refuses since a quota is used up."""
    return bool(error.status == HTTPStatus.FORBIDDEN and FULL in str(error.body))
