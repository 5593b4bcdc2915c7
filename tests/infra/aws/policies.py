"""Where AWS's plans have to fit what the pipelines and Kubernetes say. A policy says what breaks it."""

import json
from collections.abc import Iterator

from pipelines.environments import AWS, GPU
from tests.infra.plans import Json, Resource, groups_of_people, resources


def _label(group: Resource) -> str:
    return str(group.values["labels"]["nightshift/pool"])


def _pools(plan: Json, kind: str) -> list[Resource]:
    return [group for group in resources(plan, "aws_eks_node_group") if _label(group) == kind]


def _taints(group: Resource) -> set[tuple[str, str]]:
    return {(taint["key"], taint["value"]) for taint in group.values["taint"]}


def nodes_are_what_the_pipelines_ask_for(plan: Json) -> Iterator[str]:
    """Labels and taints are those by which `pipelines/environments.py` chooses nodes."""
    wanted = {kind.nodes["nightshift/pool"]: kind for kind in AWS.placements.values()}
    is_karpenters = plan["variables"].get("karpenter", {}).get("value", False)
    for kind, placement in wanted.items():
        tolerated = {(toleration.key, toleration.value) for toleration in placement.tolerations}
        is_there = any(placement.nodes.items() <= group.values["labels"].items() for group in _pools(plan, kind))
        if not is_there and not (placement.gpus and is_karpenters):
            yield f"no node is labeled {dict(placement.nodes)}"
        for group in _pools(plan, kind):
            spot = group.values["capacity_type"] == "SPOT"
            needed = {taint for taint in tolerated if taint[0] == GPU or spot}
            if _taints(group) != needed:
                yield f"{group.address} has the taints {sorted(_taints(group))}, not {sorted(needed)}"


def who_is_in_a_group_of_people_is_said(plan: Json) -> Iterator[str]:
    """The groups that Kubernetes gives rights to are those that access entries put roles into, both ways."""
    named = {
        group
        for entry in resources(plan, "aws_eks_access_entry")
        for group in entry.values.get("kubernetes_groups") or ()
    }
    wanted = {group for group in groups_of_people() if "@" not in group}
    yield from (f"nobody can be in {group}" for group in sorted(wanted - named))
    yield from (f"{group} may do nothing" for group in sorted(named - wanted))


def what_costs_by_the_hour_bears_the_tags_of_the_budget(plan: Json) -> Iterator[str]:
    """Nodes, their disks and those of claims: the provider's default tags do not reach what others create."""
    (budget,) = resources(plan, "aws_budgets_budget")
    parts = [tag for part in budget.values["filter_expression"][0]["and"] for tag in part["tags"]]
    watched = {tag["key"]: tag["values"][0] for tag in parts}
    for template in resources(plan, "aws_launch_template"):
        named = {entry["resource_type"]: entry["tags"] for entry in template.values["tag_specifications"]}
        for kind in ("instance", "network-interface", "volume"):
            if not watched.items() <= named.get(kind, {}).items():
                yield f"{template.address}: a {kind} bears {named.get(kind)}, the budget watches {watched}"
    drivers = [
        addon for addon in resources(plan, "aws_eks_addon") if addon.values["addon_name"] == "aws-ebs-csi-driver"
    ]
    for driver in drivers:
        controller = json.loads(driver.values.get("configuration_values") or "{}").get("controller", {})
        if not watched.items() <= controller.get("extraVolumeTags", {}).items():
            yield f"{driver.address}: disks of claims bear {controller}, the budget watches {watched}"


POLICIES = (
    what_costs_by_the_hour_bears_the_tags_of_the_budget,
    nodes_are_what_the_pipelines_ask_for,
    who_is_in_a_group_of_people_is_said,
)
