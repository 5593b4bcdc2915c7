"""The Kubernetes API, as far as the checks ask it."""

import json
import os
from datetime import datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, Protocol

from nightshift.cluster import MissingError, call
from nightshift.runtime.errors import UserError, require_extra

Json = dict[str, Any]
TIMEOUT_SECONDS = 10


class Kubernetes(Protocol):
    """Requests by path, such as `/api/v1/nodes`.

    Every method raises `MissingError` when there is no such object, another `UserError` when the API refuses, and
    `UnavailableError` when it does not answer.
    """

    def get(self, path: str) -> Json:
        """Return an object or a list."""

    def create(self, path: str, body: Json) -> Json:
        """Create an object."""

    def delete(self, path: str) -> None:
        """Delete an object."""

    def read_text(self, path: str) -> str:
        """Return what is no JSON object of the API: a log, or a service's answer through its proxy."""

    def read_time(self) -> datetime:
        """Return the API server's time, in whole seconds."""


class KubernetesApi:
    """A cluster by the user's kubeconfig, or the own one of a pod."""

    def __init__(self, client: Any) -> None:
        """Makes no calls.

        Args:
            client: an `ApiClient` of the `kubernetes` package.
        """
        self._client = client

    def get(self, path: str) -> Json:
        """See `Kubernetes`."""
        return dict(json.loads(self._request("GET", path).data))

    def create(self, path: str, body: Json) -> Json:
        """See `Kubernetes`."""
        return dict(json.loads(self._request("POST", path, body).data))

    def delete(self, path: str) -> None:
        """See `Kubernetes`."""
        self._request("DELETE", path)

    def read_text(self, path: str) -> str:
        """See `Kubernetes`."""
        return str(self._request("GET", path).data.decode(errors="replace"))

    def read_time(self) -> datetime:
        """See `Kubernetes`."""
        return parsedate_to_datetime(self._request("GET", "/version").headers["date"])

    def _request(self, method: str, path: str, body: Json | None = None) -> Any:
        return call(f"{method} {path}", "this user", lambda: self._send(method, path, body))

    def _send(self, method: str, path: str, body: Json | None) -> Any:
        from kubernetes.client.exceptions import ApiException

        try:
            return self._client.call_api(
                path,
                method,
                body=body,
                header_params={"Accept": "*/*", "Content-Type": "application/json"},
                auth_settings=["BearerToken"],
                _preload_content=False,
                _return_http_data_only=True,
                _request_timeout=TIMEOUT_SECONDS,
            )
        except ApiException as error:
            # the path may be that of a service, whose 404 does not name it
            if error.status == HTTPStatus.NOT_FOUND:
                raise MissingError(path) from None
            raise


def connect(context: str = "", inside: bool = False) -> KubernetesApi:
    """Return the cluster of the kubeconfig's context, by default the current one, or the one of this pod.

    Raises:
        UserError: when there is no kubeconfig, no such context, or the library is missing.
    """
    with require_extra("doctor --environment", "kserve"):
        import kubernetes
    try:
        if inside:
            kubernetes.config.load_incluster_config()
        else:
            # the library itself looks at the variable when it is imported
            kubernetes.config.load_kube_config(os.environ.get("KUBECONFIG"), context=context or None)
    except kubernetes.config.ConfigException as error:
        raise UserError(
            f"kubeconfig: {error}; aws eks update-kubeconfig or gcloud container clusters get-credentials writes one"
        ) from None
    configuration = kubernetes.client.Configuration.get_default_copy()
    configuration.retries = False
    return KubernetesApi(kubernetes.client.ApiClient(configuration))


def list_objects(cluster: Kubernetes, path: str) -> list[Json]:
    """Return the objects of a list."""
    return list(cluster.get(path).get("items", []))
