"""Whether what is planned can grow, roll and start: addresses, upgrades, spot, room on nodes."""

import ipaddress
import re
from collections.abc import Iterator

from infra.policies import quantities
from infra.policies.machines import node_configs
from infra.policies.model import Environment, Problem, Resource, Severity, blocks, label, policy
from infra.policies.pipelines import pools_of_nodes
from infra.policies.workloads import pods
from nightshift.costs.prices import read_machines
from pipelines.environments import SITES

_PORTS = 64_512  # of an address of Cloud NAT
_RESERVED = ("kubeReserved", "systemReserved")
# addresses that a node's network interfaces hold for its pods at least: EKS keeps one interface in reserve
_ADDRESSES_OF_A_NODE = 16
# GiB of memory for each vCPU, by how the name of a machine begins
_GIB = {"c": 2, "m": 4, "r": 8, "t": 4, "g4dn": 4, "g5": 4, "g6": 4, "g6e": 8, "p4": 11, "p5": 10, "e2-standard": 4,
        "n2-standard": 4, "n2-highmem": 8, "g2-standard": 4, "a2-": 7, "a3-": 9}  # fmt: skip
_ROLLS = "https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#rolling-update-deployment"


@policy("https://docs.cloud.google.com/kubernetes-engine/docs/concepts/alias-ips#defaults_limits")
def ranges_hold_the_largest_pools(environment: Environment) -> Iterator[Problem]:
    """Where a range has no address left, a pool stops below its maximum and steps stay pending."""
    for subnetwork in environment.of_type("google_compute_subnetwork"):
        nodes = sum(_maximum(pool) for pool in environment.of_type("google_container_node_pool"))
        ranges = {second["range_name"]: second["ip_cidr_range"] for second in subnetwork.values["secondary_ip_range"]}
        for cluster in environment.of_type("google_container_cluster"):
            text = ranges.get(cluster.block("ip_allocation_policy").get("cluster_secondary_range_name"))
            most = int(cluster.values.get("default_max_pods_per_node") or 110)
            a_node = 1 << (2 * most - 1).bit_length()
            if text and ipaddress.ip_network(text).num_addresses < nodes * a_node:
                allowed = f"must hold {nodes} nodes, the maximum of all pools, with {a_node} addresses each"
                yield Problem(subnetwork.address, "secondary_ip_range.ip_cidr_range", text, allowed)
        text = subnetwork.values["ip_cidr_range"]
        if ipaddress.ip_network(text).num_addresses - 4 < nodes:
            yield Problem(
                subnetwork.address, "ip_cidr_range", text, f"must hold {nodes} nodes, the maximum of all pools"
            )
    yield from _subnets(environment)


@policy("https://docs.cloud.google.com/nat/docs/ports-and-addresses")
def gateways_have_ports_for_all_nodes(environment: Environment) -> Iterator[Problem]:
    """A node for which a gateway's addresses have no ports left reaches nothing outside of its network."""
    nodes = sum(_maximum(pool) for pool in environment.of_type("google_container_node_pool"))
    for gateway in environment.of_type("google_compute_router_nat"):
        addresses, ports = gateway.values.get("nat_ips"), int(gateway.values.get("min_ports_per_vm") or 64)
        if addresses and len(addresses) * _PORTS < nodes * ports:
            allowed = f"must be more for {nodes} nodes with {ports} ports each, or min_ports_per_vm less"
            yield Problem(gateway.address, "nat_ips", len(addresses), allowed)


@policy("https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md")
def the_autoscaler_may_start_all_nodes(environment: Environment) -> Iterator[Problem]:
    """A limit of all cores below the pools' maxima leaves steps pending that a pool has room for."""
    arguments = environment.values.get("cluster-autoscaler", {}).get("extraArgs", {})
    most = str(arguments.get("cores-total", "")).rpartition(":")[2]
    cores = sum(
        int(group.block("scaling_config").get("max_size") or 0)
        * max((_size(name)["cpu"] for name in group.values.get("instance_types") or ()), default=0)
        for group in environment.of_type("aws_eks_node_group")
    )
    if most and int(most) < cores:
        where, allowed = (
            "infra/cluster/values/cluster-autoscaler.yaml",
            f"must be at least {cores:g}, the pools'",
        )
        yield Problem(where, "extraArgs.cores-total", most, allowed)


def _maximum(pool: Resource) -> int:
    scaling, zones = pool.block("autoscaling"), len(pool.values.get("node_locations") or ("",))
    return int(scaling.get("total_max_node_count") or (scaling.get("max_node_count") or 0) * zones)


def _subnets(environment: Environment) -> Iterator[Problem]:
    needed: dict[str, int] = {}
    for group in environment.of_type("aws_eks_node_group"):
        subnets = group.values.get("subnet_ids") or []
        for subnet in subnets:
            most = int(group.block("scaling_config").get("max_size") or 0)
            needed[subnet] = needed.get(subnet, 0) + -(-most // len(subnets))
    for subnet, nodes in needed.items():
        owner = environment.owners.get(str(subnet))
        text = str(owner.values.get("cidr_block")) if owner else ""
        if owner and ipaddress.ip_network(text).num_addresses - 5 < nodes * _ADDRESSES_OF_A_NODE:
            allowed = f"must hold {nodes} nodes, the maximum of all groups, with {_ADDRESSES_OF_A_NODE} addresses each"
            yield Problem(owner.address, "cidr_block", text, allowed)


@policy(_ROLLS)
def rollouts_can_proceed(environment: Environment) -> Iterator[Problem]:
    """An update that may neither add nor remove a pod or node waits forever."""
    for where, field, unavailable, surge in _rollouts(environment):
        if str(unavailable) in ("0", "0%") and str(surge) in ("0", "0%"):
            yield Problem(where, field, {"unavailable": unavailable, "surge": surge}, "one of them must be at least 1")
    for value, template in pods(environment):
        claims = {
            volume["persistentVolumeClaim"]["claimName"]
            for volume in template["spec"].get("volumes") or ()
            if "persistentVolumeClaim" in volume
        }
        strategy = value["spec"].get("strategy", {}).get("type", "RollingUpdate")
        if value["kind"] == "Deployment" and strategy != "Recreate" and claims & _single_writers(environment):
            allowed = "must be Recreate: the new pod waits for the volume that the old one holds"
            yield Problem(label(value), "strategy.type", strategy, allowed)


def _single_writers(environment: Environment) -> set[str]:
    """Return the claims that only one node may mount."""
    claims = environment.of_kind("PersistentVolumeClaim")
    return {claim["metadata"]["name"] for claim in claims if "ReadWriteMany" not in claim["spec"]["accessModes"]}


def _rollouts(environment: Environment) -> Iterator[tuple[str, str, object, object]]:
    """Yield how many pods or nodes of an update may be missing, and how many more there may be."""
    contents = [(label(value), value["spec"]) for value, _ in pods(environment)]
    contents += environment.values_files
    for where, spec in contents:
        for path, rolling in blocks(spec, "rollingUpdate"):
            # a DaemonSet's default is no further pod
            surge = rolling.get("maxSurge", 0 if path.startswith("updateStrategy") else "25%")
            yield where, path, rolling.get("maxUnavailable", "25%"), surge
    for pool in environment.of_type("google_container_node_pool"):
        if (surge := pool.block("upgrade_settings").get("max_surge")) is not None:
            yield pool.address, "upgrade_settings", pool.block("upgrade_settings").get("max_unavailable") or 0, surge
    for group in environment.of_type("aws_eks_node_group"):
        update = group.block("update_config")
        yield (
            group.address,
            "update_config",
            update.get("max_unavailable") or update.get("max_unavailable_percentage"),
            0,
        )


@policy("https://docs.aws.amazon.com/eks/latest/best-practices/karpenter.html", Severity.ADVICE)
def spot_has_a_fallback(environment: Environment) -> Iterator[Problem]:
    """Where spot is all there is, steps wait as long as the cloud has none, and services end with their nodes."""
    pools = [(labels, spot, pool.address) for pool, labels, spot, _ in pools_of_nodes(environment)]
    for pool in environment.of_kind("NodePool"):
        template = pool["spec"]["template"]
        kinds = [
            requirement.get("values", [])
            for requirement in template["spec"].get("requirements", [])
            if requirement["key"] == "karpenter.sh/capacity-type"
        ]
        pools.append((template["metadata"].get("labels", {}), kinds == [["spot"]], label(pool)))
    for kind in {labels.get("nightshift/pool") for labels, *_ in pools} - {None}:
        of_kind = [(spot, where) for labels, spot, where in pools if labels.get("nightshift/pool") == kind]
        if all(spot for spot, _ in of_kind) and (kind != "general" or _is_protected(environment)):
            allowed = f"a pool of nightshift/pool={kind} must have another capacity than spot"
            yield Problem(of_kind[0][1], "capacity", "spot", allowed)


@policy("https://karpenter.sh/docs/concepts/nodepools/#speclimits", Severity.ADVICE)
def pools_of_nodes_have_a_limit(environment: Environment) -> Iterator[Problem]:
    """A pool without a limit starts nodes for whatever is pending, and nothing bounds what they cost."""
    for pool in environment.of_kind("NodePool"):
        if pool["apiVersion"].startswith("karpenter") and not (limits := pool["spec"].get("limits")):
            yield Problem(label(pool), "spec.limits", limits, "must bound cpu or nvidia.com/gpu")


def _is_protected(environment: Environment) -> bool:
    """Say whether a cluster is one that must stay: a trial may end with its nodes."""
    clusters = environment.of_type("aws_eks_cluster", "google_container_cluster")
    return any(cluster.values.get("deletion_protection") for cluster in clusters)


@policy("https://kubernetes.io/docs/tasks/administer-cluster/reserve-compute-resources/")
def nodes_have_room_for_steps(environment: Environment) -> Iterator[Problem]:
    """A step that requests more than its nodes have left after the kubelet's reservations stays pending."""
    settings = {
        group.address: config.get("spec", {}).get("kubelet", {}).get("config", {})
        for group, config in node_configs(environment)
    }
    for group in environment.of_type("aws_eks_node_group"):
        kubelet = settings.get(group.address, {})
        for name in group.values.get("instance_types") or ():
            for resource, read in (("cpu", quantities.cores), ("memory", quantities.size)):
                size, needed = _size(name)[resource], _needed(environment, group, resource)
                reserved = [kubelet[field][resource] for field in _RESERVED if resource in kubelet.get(field, {})]
                left = size - sum(map(read, reserved))
                if size and left < needed:
                    allowed = f"{name} has {left:g} left, and a step requests {needed:g}"
                    yield Problem(group.address, f"kubelet.config ({resource})", kubelet, allowed)
        if int(kubelet.get("maxPods", 110)) < 10:
            yield Problem(group.address, "kubelet.config.maxPods", kubelet["maxPods"], "must be at least 10")


def _needed(environment: Environment, group: Resource, resource: str) -> float:
    """Return the largest request of the steps that choose a group's nodes, in cores or bytes."""
    labels = (group.values.get("labels") or {}).items()
    placements = SITES[environment.cloud].placements.values()
    requests = [
        quantities.cores(placement.cpu_request) if resource == "cpu" else quantities.size(placement.memory_request)
        for placement in placements
        if placement.nodes.items() <= labels
    ]
    return max(requests, default=0.0)


def _size(machine: str) -> dict[str, float]:
    """Return the cores and bytes of a machine type by its name; 0 where they are not known."""
    known, count = read_machines().get(machine), re.search(r"(?:\.(\d*)xlarge|-(\d+))$", machine)
    by_name = int(count[2]) if count and count[2] else 4 * int(count[1] or 1) if count else 0
    vcpus = known.vcpus if known else by_name
    gib = next((_GIB[name] for name in sorted(_GIB, key=len, reverse=True) if machine.startswith(name)), 0)
    return {"cpu": float(vcpus), "memory": vcpus * gib * 2.0**30}
