"""A Kubernetes cluster: the service account of a step, and the API's errors as ours."""

from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, TypeVar

from nightshift.runtime.errors import UnavailableError, UserError, may_pass

if TYPE_CHECKING:
    from kubernetes.client.exceptions import ApiException

Answer = TypeVar("Answer")
# annotation of a step's pod with its service account; kfp-kubernetes 2.17 has no field for it
ACCOUNT = "nightshift/service-account"
# classes of infra/cluster/kueue, by which Kueue says who is next
STEP, TRAINING = "nightshift-step", "nightshift-training"
# a namespace's quota is used up; there may be room later
FULL = "is forbidden: exceeded quota"


class MissingError(UserError):
    """A missing object."""


class MissingKindError(UserError):
    """A missing kind of object: its CustomResourceDefinition is not installed."""


def queue_labels(priority: str) -> dict[str, str]:
    """Return the labels by which a pod or TrainJob waits in Kueue's queue; without Kueue nobody reads them."""
    return {"kueue.x-k8s.io/queue-name": "nightshift", "kueue.x-k8s.io/priority-class": priority}


def call(action: str, name: str, request: Callable[[], Answer]) -> Answer:
    """Call the API.

    Args:
        action: verb and plural, such as `get inferenceservices`.
        name: name of the object, or of its user.
        request: calls a client of the `kubernetes` package.

    Raises:
        MissingError: when there is no object of that name.
        MissingKindError: when there is no such kind.
        UserError: when the API refuses.
        UnavailableError: when the API does not answer, a quota is used up, or the object has changed meanwhile.
    """
    from kubernetes.client.exceptions import ApiException
    from urllib3.exceptions import HTTPError

    try:
        return request()
    except ApiException as error:
        if error.status == HTTPStatus.NOT_FOUND and name in str(error.body):
            raise MissingError(name) from None
        message = f"Kubernetes refuses to {action} for {name!r}: {error.reason}; {error.body}"
        if error.status == HTTPStatus.CONFLICT or may_pass(error.status) or is_full(error):
            raise UnavailableError(f"{message}; run it again") from None
        raise (MissingKindError if error.status == HTTPStatus.NOT_FOUND else UserError)(message) from None
    except HTTPError as error:
        raise UnavailableError(f"Kubernetes does not answer: {error}; run it again") from None


def is_full(error: "ApiException") -> bool:
    """Return whether the API refuses because a quota is used up."""
    return bool(error.status == HTTPStatus.FORBIDDEN and FULL in str(error.body))
