"""Networks: ranges, routes, zones, security groups and firewalls."""

import ipaddress
import itertools
from collections.abc import Iterable, Iterator

from infra.policies.model import Environment, Problem, Resource, policy, table

# Lustre's own port, and those at which clients are called back
_LUSTRE = ((988, 988), (1018, 1023))

# what lies in the region, and the argument that says so
_LOCATIONS = {
    "google_storage_bucket": "location",
    "google_kms_key_ring": "location",
    "google_compute_subnetwork": "region",
    "google_artifact_registry_repository": "location",
    "google_compute_router_nat": "region",
}


@policy("https://docs.aws.amazon.com/vpc/latest/userguide/subnet-sizing.html")
def ranges_do_not_overlap(environment: Environment) -> Iterator[Problem]:
    """Subnets of a network, and the ranges of nodes, pods, services and control plane, have no address in common."""
    ranges = [*_ranges(environment)]
    for (one, field, first), (two, _, second) in itertools.combinations(ranges, 2):
        if ipaddress.ip_network(first).overlaps(ipaddress.ip_network(second)):
            yield Problem(one, field, first, f"it overlaps with {second} of {two}: take a range that is free")
    for network in environment.of_type("aws_vpc"):
        whole = ipaddress.ip_network(network.values["cidr_block"])
        for where, field, text in ranges:
            if not ipaddress.ip_network(text).subnet_of(whole):  # type: ignore[arg-type]
                yield Problem(where, field, text, f"it lies within the network's {whole}")


def _ranges(environment: Environment) -> Iterator[tuple[str, str, str]]:
    for subnet in environment.of_type("aws_subnet"):
        yield subnet.address, "cidr_block", subnet.values["cidr_block"]
    for subnet in environment.of_type("google_compute_subnetwork"):
        yield subnet.address, "ip_cidr_range", subnet.values["ip_cidr_range"]
        for second in subnet.values.get("secondary_ip_range") or ():
            yield subnet.address, f"secondary_ip_range {second['range_name']}", second["ip_cidr_range"]
    for cluster in environment.of_type("google_container_cluster"):
        if text := cluster.block("private_cluster_config").get("master_ipv4_cidr_block"):
            yield cluster.address, "master_ipv4_cidr_block", text


@policy("infra/policies/tables/zones.yaml")
def zones_have_what_is_put_there(environment: Environment) -> Iterator[Problem]:
    """Neither EKS nor every accelerator is in every zone of a region; regions that the table lacks pass."""
    zones = table("zones")
    for subnet in environment.of_type("aws_subnet"):
        zone = subnet.values["availability_zone"]
        if zone in zones["without_eks"]["zones"]:
            allowed = f"EKS has no control plane there ({zones['without_eks']['source']})"
            yield Problem(subnet.address, "availability_zone", zone, allowed)
    for pool in environment.of_type("google_container_node_pool"):
        accelerator = str(pool.block("node_config", "guest_accelerator").get("type", ""))
        offered = zones["accelerators"].get(accelerator, {})
        for zone in pool.values.get("node_locations") or ():
            listed = offered.get(zone[:-2])
            if listed is not None and zone[-1] not in listed:
                allowed = f"{accelerator} is in {zone[:-1]}{{{','.join(listed)}}} ({zones['source']})"
                yield Problem(pool.address, "node_locations", zone, allowed)


@policy("https://docs.aws.amazon.com/vpc/latest/userguide/nat-gateway-basics.html")
def a_nat_gateway_reaches_the_internet_by_its_own_subnet(environment: Environment) -> Iterator[Problem]:
    """A NAT gateway lies in a subnet whose way out is the Internet gateway, and nodes' way out is a NAT gateway."""
    ways = {subnet: way for subnet, way in _ways(environment) if way}
    for gateway in environment.of_type("aws_nat_gateway"):
        subnet = str(gateway.values.get("subnet_id"))
        if ways.get(subnet) not in (None, "aws_internet_gateway"):
            where = environment.owners[subnet].address
            yield Problem(
                gateway.address, "subnet_id", where, "it lies in a subnet with a route to the Internet gateway"
            )
    # the smallest size has none, and nodes with addresses of their own
    has_gateway = environment.of_type("aws_nat_gateway")
    for private in environment.of_type("aws_subnet"):
        if private.values.get("map_public_ip_on_launch") and has_gateway:
            yield Problem(private.address, "map_public_ip_on_launch", True, "beside NAT gateways no node is public")
    for group in environment.of_type("aws_eks_node_group", "aws_fsx_lustre_file_system") if has_gateway else ():
        for subnet in group.values.get("subnet_ids") or ():
            if ways.get(subnet) not in (None, "aws_nat_gateway"):
                where = environment.owners[subnet].address
                yield Problem(group.address, "subnet_ids", where, "it is private: its way out is a NAT gateway")


def _ways(environment: Environment) -> Iterator[tuple[str, str]]:
    """Yield each subnet with the type of what its traffic to the Internet goes through."""
    routes = {
        route.values.get("route_table_id"): environment.owners.get(
            str(route.values.get("gateway_id") or route.values.get("nat_gateway_id"))
        )
        for route in environment.of_type("aws_route")
    }
    for tie in environment.of_type("aws_route_table_association"):
        way = routes.get(tie.values.get("route_table_id"))
        yield str(tie.values.get("subnet_id")), way.type if way else ""


# arguments that together are one's own: what is given to two is refused, or serves one of them only
_OWN = {
    "aws_nat_gateway": ("allocation_id",),
    "aws_route_table_association": ("subnet_id",),
    "aws_route": ("route_table_id", "destination_cidr_block"),
    "aws_vpc_endpoint": ("service_name",),
    "aws_eks_access_entry": ("principal_arn",),
    "aws_eks_addon": ("addon_name",),
    "aws_eks_pod_identity_association": ("namespace", "service_account"),
    "aws_cloudwatch_event_rule": ("name",),
    "google_container_node_pool": ("name",),
    "google_storage_bucket_iam_member": ("bucket", "role", "member"),
    "google_kms_crypto_key_iam_member": ("role", "member"),
}


@policy("https://docs.aws.amazon.com/vpc/latest/userguide/nat-gateway-basics.html")
def what_is_ones_own_is_given_to_one(environment: Environment) -> Iterator[Problem]:
    """Two gateways have no address in common, two associations no subnet, two grants no account and role."""
    for kind, fields in _OWN.items():
        owners: dict[tuple[str, ...], str] = {}
        for resource in environment.of_type(kind):
            value = tuple(str(resource.values.get(field) or "") for field in fields)
            if all(value) and value in owners:
                allowed = f"{owners[value]} has it: each has its own"
                yield Problem(resource.address, ", ".join(fields), ", ".join(value), allowed)
            owners[value] = resource.address


Rules = list[tuple[str, object, str, int, int]]


def _admitted(environment: Environment, way: str) -> Rules:
    """Return group, peer, protocol and ports of the rules of security groups; `way` is ingress or egress."""
    return [
        (
            str(rule.values.get("security_group_id")),
            rule.values.get("referenced_security_group_id") or rule.values.get("cidr_ipv4"),
            str(rule.values.get("ip_protocol")),
            int(rule.values.get("from_port") or 0),
            int(rule.values.get("to_port") or 65535),
        )
        for rule in environment.of_type(f"aws_vpc_security_group_{way}_rule")
    ]


def _lets(rules: Rules, groups: Iterable[str], peers: Iterable[object], ports: tuple[int, int]) -> bool:
    return any(
        group in groups and peer in peers and protocol in ("tcp", "-1") and first <= ports[0] and ports[1] <= last
        for group, peer, protocol, first, last in rules
    )


@policy("https://docs.aws.amazon.com/vpc/latest/privatelink/create-interface-endpoint.html")
def interface_endpoints_let_the_network_in(environment: Environment) -> Iterator[Problem]:
    """An endpoint that refuses port 443 from the network makes AWS's service unreachable from every node."""
    rules = _admitted(environment, "ingress")
    whole = [network.values["cidr_block"] for network in environment.of_type("aws_vpc")]
    for endpoint in environment.of_type("aws_vpc_endpoint"):
        groups = endpoint.values.get("security_group_ids")
        interface = endpoint.values.get("vpc_endpoint_type") == "Interface"
        if interface and groups and not _lets(rules, groups, whole, (443, 443)):
            where = ", ".join(sorted(_called(environment, group) for group in groups))
            allowed = f"one of them has to let {', '.join(whole)} in at 443"
            yield Problem(endpoint.address, "security_group_ids", where, allowed)


@policy("https://docs.aws.amazon.com/vpc/latest/privatelink/gateway-endpoints.html")
def gateway_endpoints_are_on_the_nodes_way(environment: Environment) -> Iterator[Problem]:
    """A gateway endpoint is in the route tables of the subnets behind a NAT gateway."""
    ways = dict(_ways(environment))
    tables = {
        tie.values.get("route_table_id")
        for tie in environment.of_type("aws_route_table_association")
        if ways.get(str(tie.values.get("subnet_id"))) == "aws_nat_gateway"
    }
    for endpoint in environment.of_type("aws_vpc_endpoint"):
        named = {*(endpoint.values.get("route_table_ids") or ())}
        if endpoint.values.get("vpc_endpoint_type") == "Gateway" and tables - named:
            missing = ", ".join(sorted(_called(environment, missing_table) for missing_table in tables - named))
            yield Problem(endpoint.address, "route_table_ids", len(named), f"it lacks {missing}")


@policy("https://docs.cloud.google.com/kubernetes-engine/docs/concepts/alias-ips")
def pods_and_services_have_their_own_ranges(environment: Environment) -> Iterator[Problem]:
    """Pods have the larger of the secondary ranges, a /24 a node, and services the other one."""
    sizes = {
        second["range_name"]: ipaddress.ip_network(second["ip_cidr_range"]).num_addresses
        for subnet in environment.of_type("google_compute_subnetwork")
        for second in subnet.values.get("secondary_ip_range") or ()
    }
    for cluster in environment.of_type("google_container_cluster"):
        ranges = cluster.block("ip_allocation_policy")
        pods, services = (ranges.get(f"{kind}_secondary_range_name") for kind in ("cluster", "services"))
        for field, name in (("cluster_secondary_range_name", pods), ("services_secondary_range_name", services)):
            if name not in sizes:
                yield Problem(cluster.address, field, name, f"the subnetwork has {', '.join(sizes)}")
        if pods in sizes and services in sizes and sizes[pods] <= sizes[services]:
            allowed = f"it is the larger of {sizes}, and not the services' {services}"
            yield Problem(cluster.address, "cluster_secondary_range_name", pods, allowed)


def _called(environment: Environment, identity: object) -> str:
    owner = environment.owners.get(str(identity))
    return owner.address if owner else str(identity)


@policy("https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start.html#efa-start-security")
def efa_is_let_through_between_its_members(environment: Environment) -> Iterator[Problem]:
    """EFA is no TCP: some group of an interface lets its own members in and out with every protocol."""
    for where, field, groups in _of_efa(environment):
        for way in ("ingress", "egress"):
            own = [(group, peer) for group, peer, protocol, *_ in _admitted(environment, way) if protocol == "-1"]
            if not any(group in groups and peer == group for group, peer in own):
                shown = ", ".join(sorted(_called(environment, group) for group in groups))
                allowed = f"one has to have an {way} rule of protocol -1 that refers to itself"
                yield Problem(where, f"{field} (EFA)", shown, allowed)


def _of_efa(environment: Environment) -> Iterator[tuple[str, str, list[str]]]:
    groups = environment.of_type("aws_security_group")
    yield from (
        (group.address, "efa", [group.values["id"]])
        for group in groups
        if str(group.values.get("name")).endswith("-efa") and group.values.get("id")
    )
    for template in environment.of_type("aws_launch_template"):
        for interface in template.values.get("network_interfaces") or ():
            if "efa" in str(interface.get("interface_type")) and interface.get("security_groups"):
                yield template.address, "network_interfaces.security_groups", interface["security_groups"]
    for system in environment.of_type("aws_fsx_lustre_file_system"):
        if system.values.get("efa_enabled"):
            yield system.address, "security_group_ids", system.values.get("security_group_ids") or []


@policy("https://docs.aws.amazon.com/eks/latest/userguide/sec-group-reqs.html")
def nodes_are_in_the_clusters_group(environment: Environment) -> Iterator[Problem]:
    """A node's first interface is in the group that EKS makes for control plane and nodes, or it never joins."""
    groups = [group for cluster in _clusters(environment) if (group := _group(cluster))]
    for template in environment.of_type("aws_launch_template"):
        for field, members in _first_interface(template):
            if groups and members and not {*members} & {*groups}:
                shown = ", ".join(sorted(_called(environment, member) for member in members))
                yield Problem(template.address, field, shown, "the cluster's security group has to be among them")


def _clusters(environment: Environment) -> list[Resource]:
    return environment.of_type("aws_eks_cluster")


def _group(cluster: Resource) -> str:
    """Return the security group that EKS makes; empty where it is not known yet."""
    return str(cluster.block("vpc_config").get("cluster_security_group_id") or "")


def _first_interface(template: Resource) -> Iterator[tuple[str, list[str]]]:
    yield "vpc_security_group_ids", template.values.get("vpc_security_group_ids") or []
    for interface in template.values.get("network_interfaces") or ():
        if interface.get("device_index") == 0 and interface.get("network_card_index") == 0:
            yield "network_interfaces.security_groups", interface.get("security_groups") or []


@policy("https://docs.aws.amazon.com/fsx/latest/LustreGuide/limit-access-security-groups.html")
def lustre_and_its_clients_let_each_other_in(environment: Environment) -> Iterator[Problem]:
    """Servers admit and call themselves and nodes, and nodes admit servers, at 988 and 1018 to 1023."""
    rules = {way: _admitted(environment, way) for way in ("ingress", "egress")}
    nodes = [group for cluster in _clusters(environment) if (group := _group(cluster))]
    for system in environment.of_type("aws_fsx_lustre_file_system"):
        servers: list[str] = system.values.get("security_group_ids") or []
        # nodes' own group lets them call anybody
        required = [("ingress", servers, servers), ("ingress", servers, nodes), ("ingress", nodes, servers)]
        required += [("egress", servers, servers), ("egress", servers, nodes)]
        for (way, groups, peers), ports in itertools.product(required if servers and nodes else (), _LUSTRE):
            if not _lets(rules[way], groups, peers, ports):
                shown = [_called(environment, group) for group in groups]
                whom = ", ".join(_called(environment, peer) for peer in peers)
                allowed = f"it has no {way} rule for {whom} at {ports[0]} to {ports[1]}"
                yield Problem(system.address, "security_group_ids (lustre)", shown, allowed)


@policy("https://docs.cloud.google.com/kubernetes-engine/docs/how-to/private-clusters#add_firewall_rules")
def firewalls_let_the_right_ones_in(environment: Environment) -> Iterator[Problem]:
    """A firewall rule is for the nodes' account, and from the control plane or from Google's peered network."""
    nodes = {
        config.get("service_account")
        for pool in environment.of_type("google_container_node_pool")
        if (config := pool.block("node_config"))
    }
    for rule in environment.of_type("google_compute_firewall"):
        for account in rule.values.get("target_service_accounts") or ():
            if nodes and None not in nodes and account not in nodes:
                allowed = "nodes run under another account, to which the rule does not apply"
                yield Problem(rule.address, "target_service_accounts", _called(environment, account), allowed)
        wanted = _sources(environment, rule)
        sources = rule.values.get("source_ranges") or []
        if wanted and sources and not {*sources} <= wanted:
            yield Problem(rule.address, "source_ranges", sources, f"who calls has an address of {', '.join(wanted)}")
        if str(rule.values.get("direction")) != "INGRESS":
            yield Problem(rule.address, "direction", rule.values.get("direction"), "nodes are called: it is INGRESS")


def _sources(environment: Environment, rule: Resource) -> set[str]:
    """Return from where a rule's callers call: servers of Lustre, or the control plane."""
    if str(rule.values.get("name")).endswith("-lustre"):
        addresses = environment.of_type("google_compute_global_address")
        return {f"{address.values.get('address')}/{address.values.get('prefix_length')}" for address in addresses}
    clusters = environment.of_type("google_container_cluster")
    return {str(cluster.block("private_cluster_config").get("master_ipv4_cidr_block")) for cluster in clusters}


@policy("https://docs.cloud.google.com/managed-lustre/docs/vpc#firewall")
def lustre_calls_back_at_the_port_it_speaks(environment: Environment) -> Iterator[Problem]:
    """988, or 6988 with GKE's legacy support."""
    for instance in environment.of_type("google_lustre_instance"):
        wanted = "6988" if instance.values.get("gke_support_enabled") else "988"
        for rule in environment.of_type("google_compute_firewall"):
            ports = [port for allow in rule.values.get("allow") or () for port in allow.get("ports") or ()]
            if str(rule.values.get("name")).endswith("-lustre") and wanted not in ports:
                yield Problem(rule.address, "allow.ports", ports, f"the instance calls at {wanted}")


@policy("infra/gcp/README.md")
def what_lies_together_is_in_one_place(environment: Environment) -> Iterator[Problem]:
    """Buckets, keys, images and the cluster are of one region, and what has a zone lies in one of the cluster's."""
    for kind, field in _LOCATIONS.items():
        for resource in environment.of_type(kind):
            location = str(resource.values.get(field, "")).lower()
            if location and location != environment.region:
                allowed = f"the cluster is in {environment.region}: traffic between regions is slow and paid for"
                yield Problem(resource.address, field, resource.values[field], allowed)
    zones = {
        zone
        for cluster in environment.of_type("google_container_cluster")
        for zone in cluster.values.get("node_locations") or ()
    }
    for resource in environment.of_type("google_lustre_instance", "google_filestore_instance"):
        if zones and resource.values["location"] not in zones:
            allowed = f"nodes are in {', '.join(sorted(zones))}"
            yield Problem(resource.address, "location", resource.values["location"], allowed)


@policy("https://docs.aws.amazon.com/fsx/latest/LustreGuide/performance.html")
def a_file_system_lies_where_nodes_are(environment: Environment) -> Iterator[Problem]:
    """Lustre is in the zone of the general nodes: what passes between zones is slower, and paid for by the byte."""
    zones = {
        _zone(environment, subnet)
        for group in environment.of_type("aws_eks_node_group")
        if (group.values.get("labels") or {}).get("nightshift/pool") == "general"
        for subnet in group.values.get("subnet_ids") or ()
    } - {""}
    for system in environment.of_type("aws_fsx_lustre_file_system"):
        for subnet in system.values.get("subnet_ids") or ():
            if zones and _zone(environment, subnet) not in zones:
                yield Problem(system.address, "subnet_ids", _zone(environment, subnet), f"nodes are in {sorted(zones)}")


def _zone(environment: Environment, subnet: object) -> str:
    owner = environment.owners.get(str(subnet))
    return str(owner.values.get("availability_zone")) if owner else ""
