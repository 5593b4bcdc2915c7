"""The charts' objects, put together again from the facts that `../shared/charts/objects` holds of them."""

from typing import Any

from tests.infra.charts import Json

WORKLOADS = ("DaemonSet", "Deployment", "Job", "StatefulSet")
EVERYWHERE = ("ClusterRole", "ClusterRoleBinding", "Namespace")
# kinds with a name and no content
NAMED_ONLY = {
    "Alertmanager", "Certificate", "ClusterStorageContainer", "Issuer", "MutatingWebhookConfiguration",
    "PriorityClass", "Prometheus", "PrometheusRule", "ValidatingWebhookConfiguration",
}  # fmt: skip


def rebuilt(fact: Json) -> Json:
    """Return an object; what the facts leave out is empty, such as what secrets and config maps hold."""
    kind = fact["kind"]
    meta = {name: fact[name] for name in ("name", "labels") if fact.get(name)}
    if kind not in EVERYWHERE:
        meta["namespace"] = fact["namespace"]
    value = {"apiVersion": fact["apiVersion"], "kind": kind, "metadata": meta}
    value |= {name: fact[name] for name in ("spec", "rules", "roleRef", "subjects") if fact.get(name)}
    if kind in ("ConfigMap", "Secret"):
        value["data"] = dict.fromkeys(fact.get("keys", []), "")
    if kind == "Service":
        value["spec"] = {name: fact[name] for name in ("ports", "selector") if fact.get(name)}
    if kind == "Pod":
        value["spec"] = _pod(fact)
    if kind in WORKLOADS:
        value["spec"] = _workload(fact)
    return value


def _workload(fact: Json) -> Json:
    template = {"metadata": {"labels": fact["podLabels"]}, "spec": _pod(fact)}
    if fact["kind"] == "Job":
        template["spec"]["restartPolicy"] = "OnFailure"
        return {"template": template}
    spec: Json = {"template": template, "selector": {"matchLabels": fact["podLabels"]}}
    if fact["kind"] != "DaemonSet":
        spec["replicas"] = fact.get("replicas", 1)
    return spec | _stateful(fact) if fact["kind"] == "StatefulSet" else spec


def _stateful(fact: Json) -> Json:
    """Claims for what is mounted and is no volume: the facts have none."""
    mounts = {mount.partition(":")[0] for container in fact["containers"] for mount in container.get("mounts", [])}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    names = sorted(mounts - {volume["name"] for volume in fact["volumes"]})
    return {
        "serviceName": fact["name"],
        "volumeClaimTemplates": [{"metadata": {"name": name}, "spec": claim} for name in names],
    }


def _pod(fact: Json) -> Json:
    names = ("nodeSelector", "tolerations", "volumes", "hostNetwork", "securityContext")
    spec: Json = {name: fact[name] for name in names if fact.get(name)}
    if fact.get("serviceAccount"):
        spec["serviceAccountName"] = fact["serviceAccount"]
    for part in ("containers", "initContainers"):
        if fact.get(part):
            spec[part] = [_container(container) for container in fact[part]]
    return spec


def _container(fact: Json) -> Json:
    names = ("name", "image", "command", "args", "ports", "envFrom", "resources", "securityContext")
    container: Json = {name: fact[name] for name in names if fact.get(name)}
    container["env"] = [dict(zip(("name", "value"), text.split("=", 1), strict=False)) for text in fact.get("env", [])]
    container["volumeMounts"] = [_mount(mount) for mount in fact.get("mounts", [])]
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if fact.get(name):
            container[name] = _probe(fact[name])
    return container


def _mount(text: str) -> Json:
    """Read `volume:path#part`."""
    name, _, path_and_part = text.partition(":")
    path, _, part = path_and_part.partition("#")
    return {"name": name, "mountPath": path} | ({"subPath": part} if part else {})


def _probe(fact: Any) -> Json:
    if isinstance(fact, list):
        return {"exec": {"command": fact}}
    action = {name: value for name, value in fact.items() if value is not None}
    return {"httpGet": action} if "path" in action else {"tcpSocket": action}
