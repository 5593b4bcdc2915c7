"""A cluster of somebody's own, by its kubeconfig: as much of `Cluster` as its API lets anybody do.

A test that asks for anything else of a cluster, such as the loss of a node, is skipped there.
"""

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config

from nightshift_testkit.cluster.kinds import BUILT_IN, NAMESPACE, POD, QUOTA, SERVICE_ACCOUNT, Json, ResourceKind
from nightshift_testkit.cluster.problems import StatusError
from nightshift_testkit.processes import wait_until

KINDS = {(kind.api_version, kind.name): kind for kind in BUILT_IN}
SECONDS = 300  # until the namespace is gone with all that is in it


class RemoteCluster:
    """A namespace of a cluster that is there already."""

    def __init__(self, connection: client.ApiClient, kubeconfig: Path, namespace: str) -> None:
        self._connection = connection
        self._kubeconfig = kubeconfig
        self._namespace = namespace

    def __getattr__(self, name: str) -> Any:
        pytest.skip(f"needs the stand-in: no other cluster has `{name}`")

    def config(self, path: Path, token: str = "") -> Path:
        """Copy the kubeconfig."""
        if token:
            pytest.skip("needs the stand-in: who a token is cannot be said to another cluster")
        return Path(shutil.copy(self._kubeconfig, path))

    def apply(self, *values: Json) -> None:
        """Create objects, or patch those that are there.

        Raises:
            StatusError: with the server's words.
        """
        for value in values:
            self._apply(KINDS[value["apiVersion"], value["kind"]], value["metadata"]["name"], value)

    def _apply(self, kind: ResourceKind, name: str, value: Json) -> None:
        if not kind.namespaced and name != self._namespace:
            pytest.skip(f"needs the stand-in: a {kind.name} would be seen outside the namespace of the tests")
        query = [("fieldManager", "tests"), ("force", "true"), ("fieldValidation", "Strict")]
        self._ask("PATCH", kind, name, query, value)
        if kind == QUOTA:  # it refuses everything until it has been counted
            wait_until(lambda: self.get(QUOTA, name).get("status"), "the quota is counted")

    def get(self, kind: ResourceKind, name: str) -> Json:
        """Return an object of the namespace.

        Raises:
            StatusError: when there is none.
        """
        return self._ask("GET", kind, name)

    def peek(self, kind: ResourceKind, name: str) -> Json | None:
        """Return an object of the namespace, if there is one."""
        with contextlib.suppress(StatusError):
            return self.get(kind, name)
        return None

    def pods(self) -> list[Json]:
        """Return the namespace's pods."""
        pods: list[Json] = self._ask("GET", POD)["items"]
        return pods

    def delete(self, kind: ResourceKind, name: str, options: Json | None = None) -> None:
        """Delete an object, as DeleteOptions say."""
        self._ask("DELETE", kind, name, body=options)

    def _ask(self, verb: str, kind: ResourceKind, name: str = "", query: Any = (), body: Json | None = None) -> Json:
        space = f"/namespaces/{self._namespace}" if kind.namespaced else ""
        media = "application/apply-patch+yaml" if verb == "PATCH" else "application/json"
        try:
            answer: Json = self._connection.call_api(
                f"{kind.root}{space}/{kind.plural}/{name}".rstrip("/"),
                verb,
                query_params=list(query),
                header_params={"Content-Type": media, "Accept": "application/json"},
                body=body,
                response_type="object",
                auth_settings=["BearerToken"],
                _return_http_data_only=True,
            )
        except client.ApiException as error:
            raise StatusError(error.status, json.loads(error.body)["message"]) from None
        return answer


@contextlib.contextmanager
def reached(kubeconfig: Path, namespace: str) -> Iterator[RemoteCluster]:
    """Make a namespace on a cluster, and remove it with everything in it."""
    with config.new_client_from_config(str(kubeconfig)) as connection:
        cluster = RemoteCluster(connection, kubeconfig, namespace)
        cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        try:
            wait_until(lambda: cluster.peek(SERVICE_ACCOUNT, "default"), "the namespace has its account")
            yield cluster
        finally:
            with contextlib.suppress(StatusError):  # a test may have deleted it
                cluster.delete(NAMESPACE, namespace)
            wait_until(lambda: cluster.peek(NAMESPACE, namespace) is None, "the namespace is gone", SECONDS)
