"""Nodes: those that placements select, what they hold, and the driver that images need."""

import re
from collections.abc import Iterator, Mapping, Sequence

from nightshift.contracts.health import HealthCheck
from pipelines.doctor.findings import Checks, failure, judge, skip
from pipelines.doctor.kubernetes import Json, Kubernetes, list_objects
from pipelines.environments import GPU, Placement, Role, Site
from pipelines.quantities import parse_quantity

POOLS = "the node pools in infra/aws or infra/gcp (labels, taints), then terraform apply"
# image -> oldest major version of NVIDIA's driver for its CUDA, docs/guides/infrastructure.md
DRIVERS = {"rapids": 525, "serving-gpu": 580}
# labels of NVIDIA's feature discovery, the newer one first
DRIVER_LABELS = ("nvidia.com/cuda.driver-version.major", "nvidia.com/cuda.driver.major")
READY = {"type": "Ready", "status": "True"}


def check_nodes(cluster: Kubernetes, site: Site) -> Checks:
    """Check, for each kind of node that steps select, labels, taints, room, GPUs and driver."""
    nodes = list_objects(cluster, "/api/v1/nodes")
    yield _check_labels(nodes, site)
    for role in (Role.LIGHT, Role.GPU):
        yield from _check_pool(nodes, role, site.placements[role])


def check_driver(name: str, image: str, version: str) -> HealthCheck:
    """Check the version of NVIDIA's driver, such as `580` or `550.90.07`, against an image's CUDA."""
    needed = _needed_driver(image)
    major = int(re.match(r"\d*", version)[0] or 0)  # type: ignore[index]  # it always matches
    problems = [] if major >= needed else [f"driver {version}"]
    fix = "a newer AMI release on EKS (terraform apply), gpu_driver_version LATEST on GKE, NVIDIA's package elsewhere"
    return judge(name, f"driver {version}", problems, f"{needed} or newer, for the CUDA of {image}", fix)


def _check_labels(nodes: Sequence[Json], site: Site) -> HealthCheck:
    """Check that every node with a GPU has the labels by which steps find it."""
    selector = site.placements[Role.GPU].nodes
    missing = [
        f"{_name(node)} has no {key}"
        for node in nodes
        for key in selector
        if int(_allocatable(node).get(GPU, 0)) and key not in _labels(node)
    ]
    return judge("labels of GPU nodes", "complete", missing, ", ".join(selector), POOLS)


def _check_pool(nodes: Sequence[Json], role: Role, placement: Placement) -> Checks:
    name = f"nodes of {role} steps"
    wanted = ", ".join(f"{key}={value}" for key, value in placement.nodes.items())
    pool = [node for node in nodes if placement.nodes.items() <= _labels(node).items()]
    if not pool and placement.gpus:
        yield skip(name, f"no node with {wanted} now: the pool grows from zero; look again while a GPU step runs")
        return
    if not pool:
        yield failure(name, f"none of {len(nodes)} nodes has {wanted}", "one or more", POOLS)
        return
    problems = {_name(node): list(_list_problems(node, placement)) for node in pool}
    usable = [node for node, wrong in problems.items() if not wrong]
    texts = [] if usable else [f"{node} {wrong}" for node, reasons in problems.items() for wrong in reasons]
    yield judge(name, f"{len(usable)} of {len(pool)} usable", texts, f"a node that fits {_describe(placement)}", POOLS)
    if placement.gpus:
        yield from _check_drivers(pool, placement.image)


def _check_drivers(pool: Sequence[Json], image: str) -> Checks:
    for node in pool:
        name = f"driver of {_name(node)}"
        version = next((_labels(node)[label] for label in DRIVER_LABELS if label in _labels(node)), "")
        if version:
            yield check_driver(name, image, version)
        else:
            yield skip(name, "NVIDIA's feature discovery has not labeled the node; nvidia-smi in a GPU pod shows it")


def _list_problems(node: Json, placement: Placement) -> Iterator[str]:
    """Yield why a pod of a placement does not fit on a node, even an empty one."""
    conditions = node.get("status", {}).get("conditions", [])
    if not any(READY.items() <= condition.items() for condition in conditions):
        yield "is not ready"
    if node["spec"].get("unschedulable"):
        yield f"is cordoned (kubectl uncordon {_name(node)})"
    tolerated = {(taint.key, taint.value) for taint in placement.tolerations}
    for taint in node["spec"].get("taints", []):
        if taint["effect"] != "PreferNoSchedule" and (taint["key"], taint.get("value", "")) not in tolerated:
            yield f"has the taint {taint['key']}={taint.get('value', '')}:{taint['effect']}, not tolerated by steps"
    room = _allocatable(node)
    for resource, request in _requests(placement).items():
        if parse_quantity(room.get(resource, "0")) < parse_quantity(request):
            yield f"offers {resource} {room.get(resource, '0')}, below {request}"


def _requests(placement: Placement) -> dict[str, str]:
    requests = {"cpu": placement.cpu_request, "memory": placement.memory_request}
    return requests | ({GPU: str(placement.gpus)} if placement.gpus else {})


def _describe(placement: Placement) -> str:
    taints = ", ".join(f"{taint.key}={taint.value}" for taint in placement.tolerations) or "none"
    return f"{', '.join(f'{key} {value}' for key, value in _requests(placement).items())}; taints at most: {taints}"


def _needed_driver(image: str) -> int:
    return DRIVERS[image.rpartition("/")[2].partition(":")[0]]


def _name(node: Json) -> str:
    return str(node["metadata"]["name"])


def _labels(node: Json) -> Mapping[str, str]:
    labels: Mapping[str, str] = node["metadata"].get("labels", {})
    return labels


def _allocatable(node: Json) -> Mapping[str, str]:
    room: Mapping[str, str] = node.get("status", {}).get("allocatable", {})
    return room
