"""Quotas and limit ranges of the namespace against what steps request."""

from collections.abc import Iterator

from nightshift.contracts.health import HealthCheck
from pipelines.doctor.access import RUNS
from pipelines.doctor.findings import Checks, judge
from pipelines.doctor.kubernetes import Json, Kubernetes, list_objects
from pipelines.environments import GPU, Placement, Site
from pipelines.quantities import parse_quantity

QUOTA_FILE = "infra/cluster/namespaces/kubeflow/quota.yaml"
LIMITS_FILE = "infra/cluster/namespaces/common/limits.yaml"
NEXT = "then kubectl apply --server-side -k infra/cluster/namespaces"


def check_quotas(cluster: Kubernetes, site: Site) -> Checks:
    """Check that the largest step fits into every quota of the namespace."""
    for quota in list_objects(cluster, f"/api/v1/namespaces/{RUNS}/resourcequotas"):
        yield _check_quota(quota, site)


def check_limits(cluster: Kubernetes, site: Site) -> Checks:
    """Check that no limit range of the namespace refuses a step's container."""
    for limits in list_objects(cluster, f"/api/v1/namespaces/{RUNS}/limitranges"):
        name = f"limit range {RUNS}/{limits['metadata']['name']}"
        problems = sorted(set(_list_refusals(limits, site)))
        yield judge(name, "lets steps in", problems, "min <= request, limit <= max", f"edit {LIMITS_FILE}, {NEXT}")


def _check_quota(quota: Json, site: Site) -> HealthCheck:
    hard, demands = quota["spec"].get("hard", {}), _largest_demands(site)
    problems = [
        f"{resource} is {hard[resource]}, and a step takes {demand}"
        for resource, demand in demands.items()
        if resource in hard and parse_quantity(hard[resource]) < parse_quantity(demand)
    ]
    seen = ", ".join(f"{resource} {amount}" for resource, amount in hard.items())
    name = f"quota {RUNS}/{quota['metadata']['name']}"
    return judge(name, seen, problems, "at least what the largest step takes", f"raise it in {QUOTA_FILE}, {NEXT}")


def _largest_demands(site: Site) -> dict[str, str]:
    """Return resource, as a quota names it -> the most that one step takes of it."""
    demands = dict[str, str]()
    for placement in site.placements.values():
        for resource, amount in _demands(placement).items():
            demands[resource] = max(demands.get(resource, "0"), amount, key=parse_quantity)
    return demands


def _demands(placement: Placement) -> dict[str, str]:
    requests = {"cpu": placement.cpu_request, "memory": placement.memory_request, GPU: str(placement.gpus)}
    limits = {"cpu": placement.cpu_limit or "0", "memory": placement.memory_limit}
    demands = {f"requests.{resource}": amount for resource, amount in requests.items()}
    return demands | {f"limits.{resource}": amount for resource, amount in limits.items()} | {"pods": "1"}


def _list_refusals(limits: Json, site: Site) -> Iterator[str]:
    for rule in limits["spec"]["limits"]:
        if rule["type"] not in ("Container", "Pod"):
            continue
        for placement in site.placements.values():
            yield from _compare(rule, placement)


def _compare(rule: Json, placement: Placement) -> Iterator[str]:
    requests = {"cpu": placement.cpu_request, "memory": placement.memory_request}
    limits = {"cpu": placement.cpu_limit, "memory": placement.memory_limit}
    for resource, least in rule.get("min", {}).items():
        if resource in requests and parse_quantity(requests[resource]) < parse_quantity(least):
            yield f"min {resource} is {least}, and a step requests {requests[resource]}"
    for resource, most in rule.get("max", {}).items():
        if limits.get(resource) and parse_quantity(limits[resource]) > parse_quantity(most):
            yield f"max {resource} is {most}, and a step's limit is {limits[resource]}"
