"""KServe's objects: what an InferenceService and an LLMInferenceService share."""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from components.release.targets import GPU, BadVersionError, VersionShare
from nightshift import cluster
from nightshift.cluster import FULL, MissingError
from nightshift.runtime.errors import UnavailableError, UserError

GROUP = "serving.kserve.io"
DEPLOYMENTS = {"group": "apps", "version": "v1", "plural": "deployments"}
OWNER, NEWEST = "nightshift/use-case", "nightshift/newest"
POLL_SECONDS, POLLS = 5.0, 240
# a pod that admission keeps out: by Pod Security, a quota, a limit range, an account that is missing, a webhook
REFUSED = re.compile(r'pods "\S+" is forbidden: |admission webhook "\S+" denied the request')
# the taint of nodes with GPUs
TOLERATION = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}

Object = dict[str, Any]


@dataclass(frozen=True)
class KServeSettings:
    """Where the object lies and what its containers run.

    Attributes:
        namespace: of the object.
        image: of `containers/serving`; of `serving-gpu` for a GPU.
        account: the service account, which may read the models.
        secret: a Secret whose key `token` holds the bearer token of requests.
        artifacts: where the registry's server keeps its files, such as s3://bucket/mlflow; empty without a server.
        min_replicas: at least.
        max_replicas: at most, while there are many requests.
        gpus: of a replica, 0 or 1.
    """

    namespace: str
    image: str
    account: str
    secret: str
    artifacts: str = ""
    min_replicas: int = 1
    max_replicas: int = 4
    gpus: int = 0

    allowed_gpus: ClassVar[Sequence[int]] = (0, 1)

    def __post_init__(self) -> None:
        if not 0 <= self.min_replicas <= self.max_replicas or not self.max_replicas:
            raise UserError(
                f"state.serving.min_replicas is {self.min_replicas} and max_replicas {self.max_replicas}; "
                "allowed: 0 <= min_replicas <= max_replicas, which is at least 1"
            )
        if self.gpus not in self.allowed_gpus:
            allowed = " or ".join(map(str, self.allowed_gpus))
            raise UserError(f"state.serving.gpus is {self.gpus}; a replica's server uses {allowed}")


class KServe:
    """An object that KServe makes pods of."""

    kind: str
    resource: dict[str, str]
    modes: Sequence[str]  # as KServe calls the mode, and has called it

    def __init__(
        self,
        name: str,
        settings: KServeSettings,
        api: Any,
        ask: Callable[[str, bytes], bytes],
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        """Makes no calls.

        Args:
            name: the object's.
            settings: where the object lies and what its containers run.
            api: `kubernetes.client.CustomObjectsApi`.
            ask: posts a body to a URL, with the token, and returns the answer's.
            pause: called with the seconds between two looks.
        """
        self._name, self._settings, self._api = name, settings, api
        self._ask, self._pause = ask, pause
        self._use_case = name

    def _state(self, service: Object, share: VersionShare) -> tuple[bool, str]:
        """Return whether a version of an object can answer, and why it never will; empty while it may."""
        raise NotImplementedError

    def _await(self, share: VersionShare) -> Object:
        """Return the object once a version of it is ready; a quota that leaves no room for its pods is waited for.

        Raises:
            BadVersionError: when that does not start.
            UserError: when Kubernetes refuses its pods, which it would whatever the version.
            UnavailableError: when it takes too long.
        """
        why = ""
        for _ in range(POLLS):
            service = self._require()
            is_up, why = self._state(service, share)
            if is_up:
                return service
            if why and FULL not in why:
                raise self._failure(share, why)
            self._pause(POLL_SECONDS)
        raise UnavailableError(
            f"{self.kind} {self._name!r} does not become ready; {why or 'look at its events'}; run it again"
        )

    def _failure(self, share: VersionShare, why: str) -> UserError:
        if REFUSED.search(why):
            return UserError(
                f"{self.kind} {self._name!r} gets no pods in {self._settings.namespace!r}, whatever the version: "
                f"{why}; change what the namespace allows, then run it again"
            )
        return BadVersionError(f"{self.kind} {self._name!r} does not serve {key(share)}: {why}")

    def _require(self) -> Object:
        service = self._find()
        if service is None:
            raise UnavailableError(f"{self.kind} {self._name!r} was deleted meanwhile; run it again")
        return service

    def _find(self) -> Object | None:
        """Return the object, None when there is none.

        Raises:
            UserError: when it is not ours.
        """
        service = self._get(self.resource, self._name)
        if service and notes(service).get(OWNER) != self._use_case:
            raise UserError(
                f"{self.kind} {self._name!r} exists and has no annotation {OWNER}={self._use_case}; delete it, or "
                "give the use case another name"
            )
        mode = service.get("status", {}).get("deploymentMode", self.modes[0]) if service else self.modes[0]
        if mode not in self.modes:
            raise UserError(
                f"{self.kind} {self._name!r} is in mode {mode}, and state.serving.kind means {self.modes[0]}; "
                "delete it, or change the kind"
            )
        return service

    def _find_deployment(self, name: str, uid: str) -> Object | None:
        """Return what KServe has made of an object; not what is left of one before it.

        Args:
            name: of the Deployment.
            uid: of the object; empty where there is none, and so may be no Deployment.

        Raises:
            UserError: when it is somebody else's.
        """
        deployment = self._get(DEPLOYMENTS, name)
        owners = deployment["metadata"].get("ownerReferences", ()) if deployment else ()
        ours = [
            reference["uid"]
            for reference in owners
            if (reference["kind"], reference["name"]) == (self.kind, self._name)
        ]
        if deployment and not ours:
            raise UserError(f"Deployment {name!r} exists and is not KServe's; delete it, or rename the use case")
        return deployment if uid in ours else None

    def _create(self, body: Object) -> None:
        self._call("create", self.resource, body=body)

    def _replace(self, service: Object, body: Object) -> None:
        """Write the object; it is refused when it is not what was read any more."""
        body["metadata"]["resourceVersion"] = service["metadata"]["resourceVersion"]
        self._call("replace", self.resource, name=self._name, body=body)

    def _delete(self) -> None:
        self._call("delete", self.resource, name=self._name)
        while self._find():
            self._pause(POLL_SECONDS)

    def _get(self, kind: dict[str, str], name: str) -> Object | None:
        try:
            resource: Object = self._call("get", kind, name=name)
        except MissingError:
            return None
        return resource

    def _call(self, verb: str, kind: dict[str, str], **arguments: Any) -> Any:
        """Call Kubernetes; raises what `nightshift.cluster.call` does."""
        method = getattr(self._api, f"{verb}_namespaced_custom_object")
        location = {**kind, "namespace": self._settings.namespace}
        return cluster.call(f"{verb} {kind['plural']}", self._name, lambda: method(**location, **arguments))


def deployment_failure(deployment: Object) -> str:
    """Return why the pods of a Deployment do not start; empty while they may, and when they have."""
    reported = conditions(deployment)
    if reported.get("Progressing", {}).get("status") != "False":
        return ""
    refused = reported.get("ReplicaFailure", {})
    return str(refused.get("message") or reported["Progressing"].get("message") or "its pods do not start")


def key(share: VersionShare) -> str:
    """Return what names a version in an annotation: its number and its identity."""
    return f"{share.version.version}:{share.version.sha256}"


def notes(service: Object) -> dict[str, str]:
    """Return the annotations of an object."""
    annotations: dict[str, str] = service["metadata"].get("annotations", {})
    return annotations


def conditions(service: Object) -> dict[str, Object]:
    """Return what an object's status says, by type."""
    return {condition["type"]: condition for condition in service.get("status", {}).get("conditions", ())}


def is_ready(service: Object) -> bool:
    """Return whether an InferenceService says that it is ready."""
    return bool(conditions(service).get("Ready", {}).get("status") == "True")
