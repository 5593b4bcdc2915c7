"""Networks: ranges, routes, zones, security groups and firewalls."""

import ipaddress
import itertools
from collections.abc import Iterable, Iterator, Mapping

from infra.policies.model import Environment, Problem, Resource, Severity, one_of, policy, table

# ranges of ports: of Lustre's servers, and of callbacks to clients
_LUSTRE = ((988, 988), (1018, 1023))

# regional resources, and the argument that holds their region
_LOCATIONS = {
    "google_storage_bucket": "location",
    "google_kms_key_ring": "location",
    "google_compute_subnetwork": "region",
    "google_artifact_registry_repository": "location",
    "google_compute_router_nat": "region",
}


@policy("https://docs.aws.amazon.com/vpc/latest/userguide/subnet-sizing.html")
def ranges_do_not_overlap(environment: Environment) -> Iterator[Problem]:
    """An address in two ranges is refused by the cloud or routed to the wrong subnet, pod, service or control plane."""
    ranges = [*_ranges(environment)]
    for (one, field, first), (two, _, second) in itertools.combinations(ranges, 2):
        if ipaddress.ip_network(first).overlaps(ipaddress.ip_network(second)):
            yield Problem(one, field, first, f"it overlaps {second} of {two}: choose a free range")
    for network in environment.of_type("aws_vpc"):
        whole = ipaddress.ip_network(network.values["cidr_block"])
        for cluster in environment.of_type("aws_eks_cluster"):
            services = cluster.block("kubernetes_network_config").get("service_ipv4_cidr")
            if services and whole.overlaps(ipaddress.ip_network(services)):
                yield Problem(cluster.address, "service_ipv4_cidr", services, f"it overlaps the network, {whole}")
        for where, field, text in ranges:
            if not ipaddress.ip_network(text).subnet_of(whole):  # type: ignore[arg-type]
                yield Problem(where, field, text, f"must lie within the network's {whole}")


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
def zones_offer_the_control_plane_and_accelerators(environment: Environment) -> Iterator[Problem]:
    """Creating nodes or a control plane fails in a zone without them; regions that the table lacks pass."""
    zones = table("zones")
    for subnet in environment.of_type("aws_subnet"):
        zone = subnet.values["availability_zone"]
        if zone in zones["without_eks"]["zones"]:
            allowed = f"EKS has no control plane in this zone ({zones['without_eks']['source']})"
            yield Problem(subnet.address, "availability_zone", zone, allowed)
    for pool in environment.of_type("google_container_node_pool"):
        accelerator = str(pool.block("node_config", "guest_accelerator").get("type", ""))
        offered = zones["accelerators"].get(accelerator, {})
        for zone in pool.values.get("node_locations") or ():
            letters = offered.get(zone[:-2])
            if letters is not None and zone[-1] not in letters:
                allowed = f"{accelerator} is only available in {zone[:-1]}{{{','.join(letters)}}} ({zones['source']})"
                yield Problem(pool.address, "node_locations", zone, allowed)


@policy("https://docs.aws.amazon.com/vpc/latest/userguide/nat-gateway-basics.html", Severity.EXPOSES)
def nat_gateways_are_public_and_nodes_private(environment: Environment) -> Iterator[Problem]:
    """A NAT gateway in a private subnet has no route out, and nodes in a public one are exposed to the Internet."""
    if not environment.of_type("aws_nat_gateway"):
        return  # the smallest size has none, and its nodes have public addresses
    routes = {subnet: target for subnet, target in _internet_routes(environment) if target}
    for gateway in environment.of_type("aws_nat_gateway"):
        subnet = str(gateway.values.get("subnet_id"))
        if routes.get(subnet) not in (None, "aws_internet_gateway"):
            allowed = "must be a public subnet, with a route to the Internet gateway"
            yield Problem(gateway.address, "subnet_id", _address(environment, subnet), allowed)
    yield from _public_nodes(environment, routes)


def _public_nodes(environment: Environment, routes: Mapping[str, str]) -> Iterator[Problem]:
    """Yield the subnets that give nodes public addresses, and what lies in a subnet without a NAT gateway."""
    for private in environment.of_type("aws_subnet"):
        if private.values.get("map_public_ip_on_launch"):
            allowed = "must be false: with NAT gateways nodes have no public addresses"
            yield Problem(private.address, "map_public_ip_on_launch", True, allowed)
    for group in environment.of_type("aws_eks_node_group", "aws_fsx_lustre_file_system"):
        for subnet in group.values.get("subnet_ids") or ():
            if routes.get(subnet) not in (None, "aws_nat_gateway"):
                allowed = "must be a private subnet, with a route to a NAT gateway"
                yield Problem(group.address, "subnet_ids", _address(environment, subnet), allowed)


def _internet_routes(environment: Environment) -> Iterator[tuple[str, str]]:
    """Yield each subnet with the type of the gateway that its route to the Internet leads to."""
    routes = {
        route.values.get("route_table_id"): environment.owners.get(
            str(route.values.get("gateway_id") or route.values.get("nat_gateway_id"))
        )
        for route in environment.of_type("aws_route")
    }
    for association in environment.of_type("aws_route_table_association"):
        gateway = routes.get(association.values.get("route_table_id"))
        yield str(association.values.get("subnet_id")), gateway.type if gateway else ""


# arguments that together are unique: a second resource with them is refused, or takes over from the first
_UNIQUE = {
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
def unique_arguments_are_used_once(environment: Environment) -> Iterator[Problem]:
    """Of two gateways with one address, or two associations with one subnet, only one works."""
    for kind, fields in _UNIQUE.items():
        owners: dict[tuple[str, ...], str] = {}
        for resource in environment.of_type(kind):
            value = tuple(str(resource.values.get(field) or "") for field in fields)
            if all(value) and value in owners:
                allowed = f"{owners[value]} already uses it: must be unique"
                yield Problem(resource.address, ", ".join(fields), ", ".join(value), allowed)
            owners[value] = resource.address


Rules = list[tuple[str, object, str, int, int]]


def _rules(environment: Environment, direction: str) -> Rules:
    """Return group, peer, protocol and ports of security group rules; the direction is ingress or egress."""
    return [
        (
            str(rule.values.get("security_group_id")),
            rule.values.get("referenced_security_group_id") or rule.values.get("cidr_ipv4"),
            str(rule.values.get("ip_protocol")),
            int(rule.values.get("from_port") or 0),
            int(rule.values.get("to_port") or 65535),
        )
        for rule in environment.of_type(f"aws_vpc_security_group_{direction}_rule")
    ]


def _allows(rules: Rules, groups: Iterable[str], peers: Iterable[object], ports: tuple[int, int]) -> bool:
    """Say whether a rule of some group allows TCP between the group and some peer at all the ports."""
    return any(
        group in groups and peer in peers and protocol in ("tcp", "-1") and first <= ports[0] and ports[1] <= last
        for group, peer, protocol, first, last in rules
    )


@policy("https://docs.aws.amazon.com/vpc/latest/privatelink/create-interface-endpoint.html")
def interface_endpoints_accept_https_from_the_network(environment: Environment) -> Iterator[Problem]:
    """An endpoint that refuses port 443 from the network makes its AWS service unreachable from every node."""
    rules = _rules(environment, "ingress")
    whole = [network.values["cidr_block"] for network in environment.of_type("aws_vpc")]
    for endpoint in environment.of_type("aws_vpc_endpoint"):
        groups = endpoint.values.get("security_group_ids")
        interface = endpoint.values.get("vpc_endpoint_type") == "Interface"
        if interface and groups and not _allows(rules, groups, whole, (443, 443)):
            allowed = f"one of them must allow ingress from {', '.join(whole)} at port 443"
            yield Problem(endpoint.address, "security_group_ids", _addresses(environment, groups), allowed)


@policy("https://docs.aws.amazon.com/vpc/latest/privatelink/gateway-endpoints.html", Severity.ADVICE)
def gateway_endpoints_are_in_private_route_tables(environment: Environment) -> Iterator[Problem]:
    """Without its gateway endpoint, a private subnet's traffic to S3 is billed by the NAT gateway."""
    routes = dict(_internet_routes(environment))
    tables = {
        association.values.get("route_table_id")
        for association in environment.of_type("aws_route_table_association")
        if routes.get(str(association.values.get("subnet_id"))) == "aws_nat_gateway"
    }
    for endpoint in environment.of_type("aws_vpc_endpoint"):
        listed = {*(endpoint.values.get("route_table_ids") or ())}
        if endpoint.values.get("vpc_endpoint_type") == "Gateway" and tables - listed:
            missing = _addresses(environment, tables - listed)
            yield Problem(endpoint.address, "route_table_ids", len(listed), f"the list lacks {missing}")


@policy("https://docs.cloud.google.com/kubernetes-engine/docs/concepts/alias-ips")
def pods_use_the_larger_secondary_range(environment: Environment) -> Iterator[Problem]:
    """A node takes a /24 of the pods' range: with the services' smaller one the cluster stops growing."""
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
                yield Problem(cluster.address, field, name, f"the subnetwork has no such range: {one_of(sizes)}")
        if pods in sizes and services in sizes and sizes[pods] <= sizes[services]:
            allowed = f"must be larger than the range of services, {services}: the subnetwork has {sizes}"
            yield Problem(cluster.address, "cluster_secondary_range_name", pods, allowed)


def _address(environment: Environment, identity: object) -> str:
    """Return the address of the resource with an id or ARN; the id itself where no resource has it."""
    owner = environment.owners.get(str(identity))
    return owner.address if owner else str(identity)


def _addresses(environment: Environment, identities: Iterable[object]) -> str:
    return ", ".join(sorted(_address(environment, identity) for identity in identities))


@policy("https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-start.html#efa-start-security")
def efa_groups_allow_all_traffic_between_members(environment: Environment) -> Iterator[Problem]:
    """EFA is not TCP: where no group allows its members every protocol, collectives hang at their first step."""
    for where, field, groups in _efa_groups(environment):
        for direction in ("ingress", "egress"):
            rules = _rules(environment, direction)
            if not any(group in groups and peer == group and protocol == "-1" for group, peer, protocol, *_ in rules):
                allowed = f"one of them must have an {direction} rule of protocol -1 that refers to itself"
                yield Problem(where, f"{field} (EFA)", _addresses(environment, groups), allowed)


def _efa_groups(environment: Environment) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the resource, the argument and the security groups of everything that uses EFA."""
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
def nodes_are_in_the_cluster_security_group(environment: Environment) -> Iterator[Problem]:
    """A node whose first interface is outside the security group that EKS creates never joins the cluster."""
    groups = [group for cluster in _clusters(environment) if (group := _group(cluster))]
    for template in environment.of_type("aws_launch_template"):
        for field, members in _first_interface(template):
            if groups and members and not {*members} & {*groups}:
                allowed = "must include the cluster's security group"
                yield Problem(template.address, field, _addresses(environment, members), allowed)


def _clusters(environment: Environment) -> list[Resource]:
    return environment.of_type("aws_eks_cluster")


def _group(cluster: Resource) -> str:
    """Return the security group that EKS creates; empty where it is not known yet."""
    return str(cluster.block("vpc_config").get("cluster_security_group_id") or "")


def _first_interface(template: Resource) -> Iterator[tuple[str, list[str]]]:
    """Yield the arguments that hold the security groups of the first interface, and those groups."""
    yield "vpc_security_group_ids", template.values.get("vpc_security_group_ids") or []
    for interface in template.values.get("network_interfaces") or ():
        if interface.get("device_index") == 0 and interface.get("network_card_index") == 0:
            yield "network_interfaces.security_groups", interface.get("security_groups") or []


@policy("https://docs.aws.amazon.com/fsx/latest/LustreGuide/limit-access-security-groups.html")
def lustre_servers_and_clients_reach_each_other(environment: Environment) -> Iterator[Problem]:
    """A mount hangs where servers and nodes cannot connect both ways at ports 988 and 1018 to 1023."""
    rules = {direction: _rules(environment, direction) for direction in ("ingress", "egress")}
    nodes = [group for cluster in _clusters(environment) if (group := _group(cluster))]
    for system in environment.of_type("aws_fsx_lustre_file_system"):
        servers: list[str] = system.values.get("security_group_ids") or []
        # the nodes' own group allows all egress
        required = [("ingress", servers, servers), ("ingress", servers, nodes), ("ingress", nodes, servers)]
        required += [("egress", servers, servers), ("egress", servers, nodes)]
        for (direction, groups, peers), ports in itertools.product(required if servers and nodes else (), _LUSTRE):
            if not _allows(rules[direction], groups, peers, ports):
                addresses = [_address(environment, group) for group in groups]
                ends = f"{_addresses(environment, peers)} at ports {ports[0]} to {ports[1]}"
                allowed = f"one of them must have an {direction} rule for {ends}"
                yield Problem(system.address, "security_group_ids (lustre)", addresses, allowed)


@policy("https://docs.cloud.google.com/kubernetes-engine/docs/how-to/private-clusters#add_firewall_rules")
def firewall_rules_target_nodes_and_their_callers(environment: Environment) -> Iterator[Problem]:
    """A rule for another account or source lets neither the control plane nor Lustre's servers reach the nodes."""
    nodes = {
        config.get("service_account")
        for pool in environment.of_type("google_container_node_pool")
        if (config := pool.block("node_config"))
    }
    for rule in environment.of_type("google_compute_firewall"):
        for account in rule.values.get("target_service_accounts") or ():
            if nodes and None not in nodes and account not in nodes:
                allowed = "must be the nodes' service account: the rule applies to no other nodes"
                yield Problem(rule.address, "target_service_accounts", _address(environment, account), allowed)
        expected = _sources(environment, rule)
        sources = rule.values.get("source_ranges") or []
        if expected and sources and not {*sources} <= expected:
            yield Problem(rule.address, "source_ranges", sources, f"requests come from {', '.join(sorted(expected))}")
        if (direction := rule.values.get("direction")) != "INGRESS" and not rule.values.get("destination_ranges"):
            yield Problem(rule.address, "direction", direction, "must be INGRESS: nodes receive these requests")


@policy("https://docs.cloud.google.com/firewall/docs/firewalls#priority_order_for_firewall_rules")
def allowed_traffic_comes_before_denied(environment: Environment) -> Iterator[Problem]:
    """Of rules with one priority those that deny decide: what another one allows is refused all the same."""
    rules = environment.of_type("google_compute_firewall")
    for denied, allowed in itertools.permutations(rules, 2):
        same = all(denied.values.get(name) == allowed.values.get(name) for name in ("direction", "network"))
        one, two = (int(rule.values.get("priority") or 1000) for rule in (denied, allowed))
        if same and denied.block("deny").get("protocol") == "all" and allowed.values.get("allow") and two >= one:
            yield Problem(allowed.address, "priority", two, f"must be less than that of {denied.address}, {one}")


def _sources(environment: Environment, rule: Resource) -> set[str]:
    """Return the ranges of a rule's callers: Lustre's servers, or the control plane."""
    if str(rule.values.get("name")).endswith("-lustre"):
        addresses = environment.of_type("google_compute_global_address")
        return {f"{address.values.get('address')}/{address.values.get('prefix_length')}" for address in addresses}
    clusters = environment.of_type("google_container_cluster")
    return {str(cluster.block("private_cluster_config").get("master_ipv4_cidr_block")) for cluster in clusters}


@policy("https://docs.cloud.google.com/managed-lustre/docs/vpc#firewall")
def firewall_rules_open_the_lustre_port(environment: Environment) -> Iterator[Problem]:
    """Clients hang where Lustre cannot connect back to them, at port 988, or 6988 with GKE's legacy support."""
    for instance in environment.of_type("google_lustre_instance"):
        port = "6988" if instance.values.get("gke_support_enabled") else "988"
        for rule in environment.of_type("google_compute_firewall"):
            ports = [opened for allow in rule.values.get("allow") or () for opened in allow.get("ports") or ()]
            if str(rule.values.get("name")).endswith("-lustre") and port not in ports:
                yield Problem(
                    rule.address, "allow.ports", ports, f"must include {port}, to which the instance connects"
                )


@policy("infra/gcp/README.md")
def resources_are_in_the_region_and_zones_of_the_cluster(environment: Environment) -> Iterator[Problem]:
    """Traffic between regions and zones is slow and billed, and a key of another region encrypts nothing."""
    for kind, field in _LOCATIONS.items():
        for resource in environment.of_type(kind):
            location = str(resource.values.get(field, "")).lower()
            if location and location != environment.region:
                allowed = f"must be {environment.region}, the region of the cluster"
                yield Problem(resource.address, field, resource.values[field], allowed)
    zones = {
        zone
        for cluster in environment.of_type("google_container_cluster")
        for zone in cluster.values.get("node_locations") or ()
    }
    for resource in environment.of_type("google_lustre_instance", "google_filestore_instance"):
        if zones and resource.values["location"] not in zones:
            allowed = f"must be a zone of the nodes: {one_of(zones)}"
            yield Problem(resource.address, "location", resource.values["location"], allowed)


@policy("https://docs.aws.amazon.com/fsx/latest/LustreGuide/performance.html", Severity.ADVICE)
def lustre_is_in_a_zone_of_the_nodes(environment: Environment) -> Iterator[Problem]:
    """Traffic between Lustre and general nodes in other zones is slower, and billed by the byte."""
    zones = {
        _zone(environment, subnet)
        for group in environment.of_type("aws_eks_node_group")
        if (group.values.get("labels") or {}).get("nightshift/pool") == "general"
        for subnet in group.values.get("subnet_ids") or ()
    } - {""}
    for system in environment.of_type("aws_fsx_lustre_file_system"):
        for subnet in system.values.get("subnet_ids") or ():
            zone = _zone(environment, subnet)
            if zones and zone not in zones:
                yield Problem(system.address, "subnet_ids", zone, f"{one_of(zones)}, where the nodes are")


def _zone(environment: Environment, subnet: object) -> str:
    owner = environment.owners.get(str(subnet))
    return str(owner.values.get("availability_zone")) if owner else ""
