"""The pod of a task: what Kubeflow's compiler gives all of them, what its driver adds, and what Argo puts beside it."""

import json
from dataclasses import dataclass
from typing import Any

from nightshift_testkit.kubeflow_runs import spec
from nightshift_testkit.kubeflow_runs.spec import Json, TaskNode

ARGO = "argoproj/argoexec:v4.0.5"
LAUNCHER = "kubeflow/kfp-launcher:2.17.0"
LAUNCH = "/kfp-launcher/launch"
SCRATCH = ("gcs", "s3", "minio", ".local", ".cache", ".config")
METADATA = "metadata-grpc-service.kubeflow"
PORT = "8080"
PLATFORM = {
    "activeDeadlineSeconds", "emptyDirMounts", "nodeSelector", "podMetadata", "pvcMount", "secretAsEnv", "tolerations",
}  # fmt: skip
CONFINED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
MARK = {"pipelines.kubeflow.org/v2_component": "true"}


@dataclass(frozen=True)
class Wanted:
    """A try of a task."""

    task: TaskNode
    executor_input: Json
    account: str
    workflow: str
    execution: str  # what its launcher reports under
    number: int  # number of the try, from 0

    @property
    def name(self) -> str:
        return f"{self.workflow}-{self.task.name}-{self.number}"

    @property
    def pod(self) -> Json:
        options = self.task.platform.get("podMetadata", {})
        labels = MARK | {"workflows.argoproj.io/workflow": self.workflow, "workflows.argoproj.io/completed": "false"}
        annotations = MARK | {"workflows.argoproj.io/node-name": f"{self.task.name}({self.number})"}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": self.name,
                "labels": options.get("labels", {}) | labels,
                "annotations": options.get("annotations", {}) | annotations,
            },
            "spec": {"restartPolicy": "Never", "serviceAccountName": self.account, **self._placed, **self._containers},
        }

    @property
    def _placed(self) -> Json:
        options = self.task.platform
        assert set(options) <= PLATFORM, set(options) - PLATFORM
        spec: Json = {"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}
        spec["nodeSelector"] = options.get("nodeSelector", {}).get("labels", {})
        spec["tolerations"] = options.get("tolerations", [])
        if "activeDeadlineSeconds" in options:
            spec["activeDeadlineSeconds"] = int(options["activeDeadlineSeconds"])
        return spec

    @property
    def _containers(self) -> Json:
        system = CONFINED | {"runAsNonRoot": True}
        argo = {"image": ARGO, "securityContext": system | {"runAsUser": 65532}}
        shared = {"name": "var-run-argo", "mountPath": "/var/run/argo"}
        volumes, mounts = volumes_of(self.task.platform)
        launcher = {
            "name": "kfp-launcher",
            "image": LAUNCHER,
            "command": ["launcher-v2", "--copy", LAUNCH],
            "resources": {"limits": {"cpu": "0.5", "memory": "256Mi"}, "requests": {"cpu": "0.1"}},
            "securityContext": system,
            "volumeMounts": [{"name": "kfp-launcher", "mountPath": "/kfp-launcher"}],
        }
        wait = argo | {"name": "wait", "command": ["argoexec", "wait"], "volumeMounts": [shared]}
        init = argo | {"name": "init", "command": ["argoexec", "init"], "volumeMounts": [shared]}
        main = self._main | {"volumeMounts": [shared, *mounts]}
        volumes.append({"name": "var-run-argo", "emptyDir": {}})
        return {"initContainers": [init, launcher], "containers": [wait, main], "volumes": volumes}

    @property
    def _main(self) -> Json:
        container, words = self.task.container, ["--executor_input", json.dumps(self.executor_input)]
        words += ["--component_spec", json.dumps(self.task.component), "--execution_id", self.execution]
        words += ["--pod_name", "$(KFP_POD_NAME)", "--mlmd_server_address", METADATA, "--mlmd_server_port", PORT]
        return {
            "name": "main",
            "image": container["image"],
            "command": [LAUNCH, *words, "--"],
            "args": spec.command(self.task, self.executor_input),
            "env": [*_common(self.number), *container.get("env", []), *_secrets(self.task.platform)],
            "envFrom": [{"configMapRef": {"name": "metadata-grpc-configmap", "optional": True}}],
            "resources": resources(container.get("resources", {})),
            "securityContext": CONFINED,
        }


def _common(number: int) -> list[Json]:
    fields = {"KFP_POD_NAME": "metadata.name", "KFP_POD_UID": "metadata.uid"}
    named = [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()]
    return [*named, {"name": "KFP_RETRY_INDEX", "value": str(number)}]


def _secrets(options: Json) -> list[Json]:
    variables = []
    for secret in options.get("secretAsEnv", []):
        name = secret["secretNameParameter"]["runtimeValue"]["constant"]
        for pair in secret["keyToEnv"]:
            wanted: Json = {"name": name, "key": pair["secretKey"], "optional": secret.get("optional", False)}
            variables.append({"name": pair["envVar"], "valueFrom": {"secretKeyRef": wanted}})
    return variables


def volumes_of(options: Json) -> tuple[list[Json], list[Json]]:
    """A pod's volumes, and where its step sees them."""
    volumes: list[Json] = [{"name": "kfp-launcher", "emptyDir": {}}]
    mounts: list[Json] = [{"name": "kfp-launcher", "mountPath": "/kfp-launcher"}]
    for name in SCRATCH:
        volume = f"{name.replace('.', 'dot-')}-scratch"
        volumes.append({"name": volume, "emptyDir": {}})
        mounts.append({"name": volume, "mountPath": f"/{name}"})
    for mount in options.get("pvcMount", []):
        claim = mount["pvcNameParameter"]["runtimeValue"]["constant"]
        volumes.append({"name": claim, "persistentVolumeClaim": {"claimName": claim}})
        mounts.append({"name": claim, "mountPath": mount["mountPath"]})
    for mount in options.get("emptyDirMounts", []):
        kind = {"medium": mount.get("medium", ""), "sizeLimit": mount["sizeLimit"]}
        volumes.append({"name": mount["volumeName"], "emptyDir": kind})
        mounts.append({"name": mount["volumeName"], "mountPath": mount["mountPath"]})
    return volumes, mounts


def resources(written: Json) -> Json:
    """A container's resources; the fields that say how much without a unit are older than these."""
    limits: dict[str, Any] = {}
    requests: dict[str, Any] = {}
    for kind, quantities in (("Limit", limits), ("Request", requests)):
        for resource in ("cpu", "memory"):
            key = f"resource{resource.capitalize()}{kind}"
            if key in written:
                quantities[resource] = written[key]
    if accelerator := written.get("accelerator"):
        limits[accelerator["resourceType"]] = accelerator["resourceCount"]
    return {"limits": limits, "requests": requests}
