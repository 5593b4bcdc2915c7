"""The same checks in a pod: started by a person, with the image, account, volumes and secrets of a light step."""

import json
import secrets
import time
from collections.abc import Callable

from nightshift.contracts.health import HealthReport
from nightshift.runtime.errors import UnavailableError, UserError
from pipelines.doctor.access import RUNS
from pipelines.doctor.kubernetes import Json, Kubernetes
from pipelines.environments import SERVICE_ACCOUNT, Placement, Role, Site

PODS = f"/api/v1/namespaces/{RUNS}/pods"
USER = 10001
ATTEMPTS, SECONDS = 100, 3.0  # five minutes: a node may have to come, and the image to be pulled
ENDED = ("Succeeded", "Failed")
# why a container never starts, and what to do
STUCK = {
    "ErrImagePull": "push the image, or give the nodes or the account's pull secret the right to pull it",
    "ImagePullBackOff": "push the image, or give the nodes or the account's pull secret the right to pull it",
    "InvalidImageName": "correct NIGHTSHIFT_IMAGES",
    "CreateContainerConfigError": "see the checks of secrets",
}


def diagnose_in_pod(cluster: Kubernetes, site: Site, pause: Callable[[float], None] = time.sleep) -> HealthReport:
    """Run the checks in a pod and return what it reports; the pod is deleted.

    Raises:
        UserError: when the pod is refused, cannot start, or reports nothing.
        UnavailableError: when it does not end within five minutes.
    """
    name = f"nightshift-doctor-{secrets.token_hex(4)}"
    cluster.create(PODS, _build_pod(name, site))
    try:
        _wait(cluster, name, pause)
        log = cluster.read_text(f"{PODS}/{name}/log")
    finally:
        cluster.delete(f"{PODS}/{name}")
    try:
        # a log holds what a library has warned of too
        document, _ = json.JSONDecoder().raw_decode(log, log.index("{"))
        return HealthReport.parse(document, f"pod {name}")
    except ValueError:
        raise UserError(f"pod {name} printed no report but: {log[-500:]!r}; build the image of this version") from None


def _build_pod(name: str, site: Site) -> Json:
    placement = site.placements[Role.LIGHT]
    profile = {"type": "RuntimeDefault"}
    security = {"runAsNonRoot": True, "runAsUser": USER, "runAsGroup": USER, "seccompProfile": profile}
    volumes = [
        {"name": volume.claim, "persistentVolumeClaim": {"claimName": volume.claim}} for volume in placement.volumes
    ]
    spec: Json = {
        "restartPolicy": "Never",
        "serviceAccountName": placement.account or SERVICE_ACCOUNT,
        "nodeSelector": dict(placement.nodes),
        "securityContext": security,
        "containers": [_build_container(placement, site.name)],
        "volumes": volumes,
    }
    # network policies know a step by this label
    labels = {"pipelines.kubeflow.org/v2_component": "true", **placement.labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": labels}, "spec": spec}


def _build_container(placement: Placement, environment: str) -> Json:
    return {
        "name": "doctor",
        "image": placement.image,
        "command": ["nightshift", "doctor", "--environment", environment, "--inside", "--json"],
        "env": [{"name": name, "value": value} for name, value in placement.environment.items()] + _logins(placement),
        "resources": {
            "requests": {"cpu": placement.cpu_request, "memory": placement.memory_request},
            "limits": {"memory": placement.memory_limit},
        },
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [{"name": volume.claim, "mountPath": volume.path} for volume in placement.volumes],
    }


def _logins(placement: Placement) -> list[Json]:
    return [
        {"name": variable, "valueFrom": {"secretKeyRef": {"name": secret.name, "key": key}}}
        for secret in placement.secrets
        for key, variable in secret.keys.items()
    ]


def _wait(cluster: Kubernetes, name: str, pause: Callable[[float], None]) -> None:
    for _ in range(ATTEMPTS):
        status = cluster.get(f"{PODS}/{name}").get("status", {})
        if status.get("phase") in ENDED:
            return
        _raise_if_stuck(status)
        pause(SECONDS)
    reasons = [item.get("message", "") for item in status.get("conditions", []) if item["status"] == "False"]
    raise UnavailableError(
        f"pod {name} has not ended within {ATTEMPTS * SECONDS:.0f} s: {'; '.join(reasons)}; run `nightshift doctor` "
        "without --in-pod, which looks at its nodes and quotas"
    )


def _raise_if_stuck(status: Json) -> None:
    for container in status.get("containerStatuses", []):
        waiting = container["state"].get("waiting", {})
        if fix := STUCK.get(waiting.get("reason", "")):
            raise UserError(f"the pod cannot start: {waiting['reason']}: {waiting.get('message')}; {fix}")
