"""KServe in mode Standard: an InferenceService named after the use case, whose container is our model server.

One Deployment answers: a change replaces its pods, and no request waits for one.
KServe copies an object's annotations to the pods of the Deployment that it makes, so a change has been taken in once
they are there. Its own status does not say that: it repeats what the Deployment said of the version before. Each change
has an annotation of its own, since a Deployment that goes back to pods it has had keeps saying that it has failed.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from components.release.targets import (
    GPU,
    TOLERANCE,
    VersionShare,
    ask_until_valid,
    files,
    is_superset,
    on_gpu,
    parse_answer,
)
from components.release.targets.kserve import (
    GROUP,
    NEWEST,
    OWNER,
    REPLACES,
    TOLERATION,
    KServe,
    KServeSettings,
    Object,
    deployment_failure,
    is_ready,
    key,
    notes,
)
from nightshift.contracts.loadtest import UTILIZATION
from nightshift.runtime.errors import UserError

SERVICES = {"group": GROUP, "version": "v1beta1", "plural": "inferenceservices"}
PORT, TOKEN = 8321, "/etc/nightshift/token"
RESOURCES = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2", "memory": "2Gi"}}
PRIORITY = "nightshift-serving"
# no more requests come once endpoints are gone; then the server has its own time to answer what it has in hand
DRAIN_SECONDS, GRACE_SECONDS = 10, 30
START_SECONDS, PROBE_SECONDS = 300, 5


@dataclass(frozen=True)
class RawDeploymentSettings(KServeSettings):
    """Where the object lies, and what its containers run.

    Attributes:
        min_replicas: at least; with one, a node that goes away takes the endpoint with it for a while.
    """

    min_replicas: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.min_replicas < 1:
            raise UserError(f"state.serving.min_replicas is {self.min_replicas}; a Deployment keeps at least 1 replica")


class KServeRawDeployment(KServe):
    """An InferenceService of one version."""

    kind, resource = "InferenceService", SERVICES
    splits, tolerance = False, TOLERANCE
    modes = ("Standard", "RawDeployment")
    _settings: RawDeploymentSettings

    def apply(self, split: Sequence[VersionShare]) -> None:
        """Write the object where it is not as it should be, and wait for its pods; see `ReleaseTarget`."""
        (share,) = split
        service = self._find()
        if service is None:
            self._find_deployment(f"{self._name}-predictor", "")  # somebody else's would be changed
            self._create(self._whole(share, ""))
        elif not self._runs(service, share):
            self._replace(service, self._whole(share, service["metadata"]["resourceVersion"]))
        self._await()

    def serving(self) -> dict[int, float]:
        """Return the version of the object once no pod of another is left; see `ReleaseTarget`."""
        service, why = self._await_settled()
        return {} if service is None or why else {int(notes(service)[NEWEST].partition(":")[0]): 1.0}

    def ask(self, share: VersionShare) -> Any:
        """Ask the service of the pods; those that were replaced may answer it for some seconds; see `ReleaseTarget`."""
        url, body = self._await()["status"]["address"]["url"], json.dumps(share.request).encode()
        return ask_until_valid(share, lambda: parse_answer(url, self._ask(f"{url}/score", body)), self._pause)

    def measure(self, *_: object) -> None:
        """Not available: KServe keeps no figures of a version's requests; see `ReleaseTarget`."""

    def clean(self, split: Sequence[VersionShare]) -> None:
        """Delete the object when nothing is wanted: all that KServe has made of it goes too; see `ReleaseTarget`."""
        if not split and self._find():
            self._delete()

    def _state(self, service: Object) -> tuple[bool, str]:
        deployment = self._find_deployment(f"{self._name}-predictor", service["metadata"]["uid"])
        if deployment is None or not _has_taken(deployment, service):
            return False, ""
        is_up = (
            _available(deployment) >= self._settings.min_replicas
            and is_ready(service)
            and "address" in service["status"]
        )
        return is_up, deployment_failure(deployment)

    def _runs(self, service: Object, share: VersionShare) -> bool:
        """Return whether an object is of this version, with the settings we declare."""
        wanted = self._predictor(share)
        return notes(service)[NEWEST] == key(share) and is_superset(service["spec"]["predictor"], wanted)

    def _whole(self, share: VersionShare, replaces: str) -> Object:
        annotations = {
            OWNER: self._name,
            NEWEST: key(share),
            f"{GROUP}/deploymentMode": self.modes[0],
            REPLACES: replaces,
            f"{GROUP}/autoscalerClass": "hpa",
        }
        return {
            "apiVersion": f"{GROUP}/{SERVICES['version']}",
            "kind": self.kind,
            "metadata": {"name": self._name, "namespace": self._settings.namespace, "annotations": annotations},
            "spec": {"predictor": self._predictor(share)},
        }

    def _predictor(self, share: VersionShare) -> Object:
        gpu = {"tolerations": [TOLERATION]} if self._settings.gpus else {}
        return gpu | {
            "minReplicas": self._settings.min_replicas,
            "maxReplicas": self._settings.max_replicas,
            "scaleMetric": "cpu",
            "scaleTarget": round(100 * UTILIZATION),
            "deploymentStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "priorityClassName": PRIORITY,
            "terminationGracePeriodSeconds": GRACE_SECONDS,
            "serviceAccountName": self._settings.account,
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "volumes": [{"name": "token", "secret": {"secretName": self._settings.secret}}],
            "containers": [self._container(share)],
        }

    def _container(self, share: VersionShare) -> Object:
        live = {"httpGet": {"path": "/v2/health/live", "port": PORT}, "periodSeconds": PROBE_SECONDS}
        return {
            "name": "kserve-container",
            "image": self._settings.image,
            "command": ["python", "-m", "nightshift.serving"],
            "args": self._args(share),
            "ports": [{"containerPort": PORT, "protocol": "TCP"}],
            "readinessProbe": {"httpGet": {"path": "/v2/health/ready", "port": PORT}},
            "startupProbe": live | {"failureThreshold": START_SECONDS // PROBE_SECONDS},
            "livenessProbe": live,
            "lifecycle": {"preStop": {"sleep": {"seconds": DRAIN_SECONDS}}},
            "resources": _resources(self._settings.gpus),
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
            "volumeMounts": [{"name": "token", "mountPath": TOKEN.rpartition("/")[0], "readOnly": True}],
        }

    def _args(self, share: VersionShare) -> list[str]:
        model = files(share.version, self._settings.artifacts)
        flags = {"model": model, "name": self._name, "host": "0.0.0.0", "port": PORT}  # noqa: S104
        words = [str(word) for name, value in flags.items() for word in (f"--{name}", value)]
        return [*words, "--token-file", TOKEN, *on_gpu(self._settings.gpus)]


def _resources(gpus: int) -> Object:
    limits = RESOURCES["limits"] | ({GPU: str(gpus)} if gpus else {})
    return RESOURCES | {"limits": limits}


def _has_taken(deployment: Object, service: Object) -> bool:
    """Return whether a Deployment says something of what the object wants now."""
    annotations = deployment["spec"]["template"]["metadata"].get("annotations", {})
    seen = deployment.get("status", {}).get("observedGeneration")
    same = all(annotations.get(name) == notes(service)[name] for name in (NEWEST, REPLACES))
    return same and bool(seen == deployment["metadata"]["generation"])


def _available(deployment: Object) -> int:
    """Return how many pods answer; 0 while there are others than those that are wanted."""
    status = deployment.get("status", {})
    is_alone = status.get("replicas", 0) == status.get("updatedReplicas", 0)
    return int(status.get("availableReplicas", 0)) if is_alone else 0
