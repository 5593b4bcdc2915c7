"""Lay over a compiled pipeline what its steps get at a site, as kfp and kfp-kubernetes write it. Needs neither.

A graph is the same everywhere, so it is compiled once; see `pipelines.environments.Placement` for what differs.
"""

import copy
from typing import Any

from nightshift.cluster import ACCOUNT
from nightshift.runtime.telemetry import PIPELINE
from pipelines.environments import GPU, GRACE, ROLES, SHARED_MEMORY, Placement, Role, Site
from pipelines.ir import Retry
from pipelines.quantities import parse_quantity

Json = dict[str, Any]


def place_steps(spec: Json, site: Site) -> list[Json]:
    """Return a pipeline's documents for a site: its spec, and what Kubernetes gives its steps if that is anything.

    Args:
        spec: the first document of a compiled pipeline; what it says of places is replaced.
        site: the placement of each role, and the defaults of the pipeline's parameters.
    """
    spec = copy.deepcopy(spec)
    executors = spec["deploymentSpec"]["executors"]
    placements = {label: site.placements[_role(executor)] for label, executor in executors.items()}
    name = spec["pipelineInfo"]["name"]
    for label, placement in placements.items():
        _place_container(executors[label]["container"], placement, name)
    components = spec["components"]
    graphs = [part["dag"] for part in (spec["root"], *components.values()) if "dag" in part]
    for task in (task for graph in graphs for task in graph["tasks"].values()):
        if label := components[task["componentRef"]["name"]].get("executorLabel"):
            _set_retry(task, placements[label].retry)
    for parameter, definition in spec["root"]["inputDefinitions"]["parameters"].items():
        if parameter in site.parameters:
            definition["defaultValue"] = copy.deepcopy(site.parameters[parameter])
    pods = {label: pod for label, placement in placements.items() if (pod := _pod(placement))}
    return [spec, {"platforms": {"kubernetes": {"deploymentSpec": {"executors": pods}}}}] if pods else [spec]


def _role(executor: Json) -> Role:
    """Return a step's role by its command, `python -m components.<name>`."""
    component = executor["container"]["command"][-1].removeprefix("components.")
    return ROLES.get(component, Role.LIGHT)


def _place_container(container: Json, placement: Placement, pipeline: str) -> None:
    environment = {**placement.environment, PIPELINE: pipeline}
    container["image"] = placement.image
    container["env"] = [{"name": name, "value": value} for name, value in environment.items()]
    container["resources"] = _resources(placement)


def _resources(placement: Placement) -> Json:
    """Return each quantity twice: in cores and GB for older backends, and as it is written."""
    quantities = {
        "cpuRequest": placement.cpu_request,
        "cpuLimit": placement.cpu_limit,
        "memoryRequest": placement.memory_request,
        "memoryLimit": placement.memory_limit,
    }
    resources: Json = {}
    for name, text in quantities.items():
        if text:
            resources[name] = float(parse_quantity(text)) / (1e9 if name.startswith("memory") else 1)
            resources[f"resource{name[0].upper()}{name[1:]}"] = text
    if count := str(placement.gpus or ""):
        resources["accelerator"] = {"type": GPU, "resourceType": GPU, "count": count, "resourceCount": count}
    return resources


def _set_retry(task: Json, retry: Retry) -> None:
    task.pop("retryPolicy", None)
    if retry.count:
        task["retryPolicy"] = {
            "maxRetryCount": retry.count,
            "backoffDuration": f"{retry.seconds:.0f}s",
            "backoffFactor": retry.factor,
            "backoffMaxDuration": "3600s",
        }


def _pod(placement: Placement) -> Json:
    memory = {"volumeName": "shared-memory", "mountPath": SHARED_MEMORY, "medium": "Memory"}
    pod = {
        "nodeSelector": {"labels": dict(placement.nodes)} if placement.nodes else {},
        "tolerations": [
            {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": "NoSchedule"}
            for taint in placement.tolerations
        ],
        "podMetadata": _metadata(placement),
        "pvcMount": [
            {**_named("pvcNameParameter", volume.claim), "constant": volume.claim, "mountPath": volume.path}
            for volume in placement.volumes
        ],
        "secretAsEnv": [
            {
                **_named("secretNameParameter", secret.name),
                "secretName": secret.name,
                "keyToEnv": [{"secretKey": key, "envVar": variable} for key, variable in secret.keys.items()],
                "optional": secret.is_optional,
            }
            for secret in placement.secrets
        ],
        "emptyDirMounts": [memory | {"sizeLimit": placement.shared_memory}] if placement.shared_memory else [],
        "activeDeadlineSeconds": str(placement.timeout or ""),
    }
    return {name: value for name, value in pod.items() if value}


def _named(parameter: str, name: str) -> Json:
    return {parameter: {"runtimeValue": {"constant": name}}}


def _metadata(placement: Placement) -> Json:
    annotations = {GRACE: str(placement.grace or ""), ACCOUNT: placement.account}
    metadata = {
        "labels": dict(placement.labels),
        "annotations": {name: value for name, value in annotations.items() if value},
    }
    return {name: value for name, value in metadata.items() if value}
