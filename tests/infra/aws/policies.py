"""What has to hold in every plan for AWS. A policy says, for each thing that breaks it, what that is."""

import json
from collections.abc import Iterator
from ipaddress import ip_network
from typing import Any

from pipelines.environments import AWS, GPU
from tests.infra.plans import Json, Resource, expressions, groups_of_people, resources, volume

# which argument of what holds data names the key
KEYS = {
    "aws_cloudwatch_log_group": "kms_key_id",
    "aws_ecr_repository": "encryption_configuration",
    "aws_eks_cluster": "encryption_config",
    "aws_fsx_lustre_file_system": "kms_key_id",
    "aws_s3_bucket_server_side_encryption_configuration": "rule",
}


def _label(group: Resource) -> str:
    return str(group.values["labels"]["nightshift/pool"])


def _pools(plan: Json, kind: str) -> list[Resource]:
    return [group for group in resources(plan, "aws_eks_node_group") if _label(group) == kind]


def _taints(group: Resource) -> set[tuple[str, str]]:
    return {(taint["key"], taint["value"]) for taint in group.values["taint"]}


def gpu_pools_scale_from_zero(plan: Json) -> Iterator[str]:
    """No GPU runs, and so costs, while nothing asks for it; an autoscaler knows what it would get."""
    for group in _pools(plan, "gpu"):
        scaling = group.values["scaling_config"][0]
        if scaling["min_size"] or scaling["desired_size"]:
            yield f"{group.address} keeps nodes"
        module = group.address.rsplit(".aws_", 1)[0]
        tags = [
            tag.values["tag"][0]["key"] for tag in resources(plan, "aws_autoscaling_group_tag") if module in tag.address
        ]
        labels = group.values["labels"]
        wanted = [
            *(f"label/{key}" for key in labels),
            f"resources/{GPU}",
            *(f"taint/{key}" for key, _ in _taints(group)),
        ]
        for key in wanted:
            if f"k8s.io/cluster-autoscaler/node-template/{key}" not in tags:
                yield f"{group.address}: the autoscaler is not told of {key}"
        if "k8s.amazonaws.com/accelerator" not in labels:
            yield f"{group.address}: the autoscaler does not wait for the GPUs of a new node, and starts another"


def spot_has_a_fallback(plan: Json) -> Iterator[str]:
    """Spot is there, of several types, and something else when there is none."""
    capacity = {group.address: group.values["capacity_type"] for group in _pools(plan, "gpu")}
    if "SPOT" not in capacity.values():
        yield "no pool is spot"
    if set(capacity.values()) <= {"SPOT"}:
        yield "no pool is on demand or reserved"
    for group in _pools(plan, "gpu"):
        if group.values["capacity_type"] == "SPOT" and len(group.values["instance_types"]) < 3:
            yield f"{group.address} is spot of fewer than three types"


def nodes_are_what_the_pipelines_ask_for(plan: Json) -> Iterator[str]:
    """Labels and taints are those by which `pipelines/environments.py` chooses nodes."""
    wanted = {kind.nodes["nightshift/pool"]: kind for kind in AWS.placements.values()}
    for kind, placement in wanted.items():
        tolerated = {(toleration.key, toleration.value) for toleration in placement.tolerations}
        if not any(placement.nodes.items() <= group.values["labels"].items() for group in _pools(plan, kind)):
            yield f"no node is labelled {dict(placement.nodes)}"
        for group in _pools(plan, kind):
            spot = group.values["capacity_type"] == "SPOT"
            needed = {taint for taint in tolerated if taint[0] == GPU or spot}
            if _taints(group) != needed:
                yield f"{group.address} has the taints {sorted(_taints(group))}, not {sorted(needed)}"


def a_node_says_how_many_gpus_it_has(plan: Json) -> Iterator[str]:
    """So that a step of one GPU does not take a node of eight."""
    told = {
        tag.address.partition(".aws_")[0]: tag.values["tag"][0]["value"]
        for tag in resources(plan, "aws_autoscaling_group_tag")
        if tag.values["tag"][0]["key"].endswith(f"node-template/resources/{GPU}")
    }
    for group in _pools(plan, "gpu"):
        said, has = group.values["labels"].get("nightshift/gpus"), told.get(group.address.partition(".aws_")[0])
        if said != has:
            yield f"{group.address} says it has {said} GPUs, and has {has}"


def nodes_and_addons_follow_the_cluster(plan: Json) -> Iterator[str]:
    """Without a version of their own they stay at that with which they were made, whatever becomes of the cluster's."""
    (version,) = {cluster.values["version"] for cluster in resources(plan, "aws_eks_cluster")}
    for group in resources(plan, "aws_eks_node_group"):
        if group.values.get("version") != version:
            yield f"{group.address} is of version {group.values.get('version')}, the cluster of {version}"
    for address, written in expressions(plan, "aws_eks_addon").items():
        if "data.aws_eks_addon_version" not in str(written.get("addon_version")):
            yield f"{address} is never upgraded"


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


def claims_find_nodes_in_their_zone(plan: Json) -> Iterator[str]:
    """A disk lies in one zone, and a group over several may grow in another: general nodes are where Lustre is."""
    if "local.nearest" not in _module(plan, "general_pool")["expressions"]["subnet_ids"]["references"]:
        yield "general nodes are in several zones, the disks of claims in one"


def nodes_go_before_their_way_out(plan: Json) -> Iterator[str]:
    """Nodes are in subnets that Terraform takes as ready once they have routes, and so destroys the routes last."""
    waited = _module(plan, "network")["module"]["outputs"]["subnet_ids"].get("depends_on", [])
    for route in ("aws_route.nat", "aws_route_table_association.private", "aws_vpc_endpoint.interface"):
        if route not in waited:
            yield f"{route} may be destroyed before the nodes"


def _module(plan: Json, name: str) -> Json:
    found: Json = plan["configuration"]["root_module"]["module_calls"][name]
    return found


def disks_are_encrypted(plan: Json) -> Iterator[str]:
    """Those of the nodes; with the account's own key, since nothing on them lasts."""
    for template in resources(plan, "aws_launch_template"):
        for disk in template.values["block_device_mappings"]:
            if disk["ebs"][0]["encrypted"] != "true" or disk["ebs"][0]["volume_type"] != "gp3":
                yield f"{template.address} has a disk that is no encrypted gp3"


def data_is_encrypted_with_the_environments_key(plan: Json) -> Iterator[str]:
    """Whatever lasts: the bucket, Lustre, images, logs and Kubernetes secrets."""
    for kind, argument in KEYS.items():
        for address, written in expressions(plan, kind).items():
            if "kms_key_arn" not in str(written.get(argument)):
                yield f"{address} is not encrypted with the environment's key"
    encryption = "aws_s3_bucket_server_side_encryption_configuration"
    if len(resources(plan, encryption)) != len(resources(plan, "aws_s3_bucket")):
        yield "a bucket says nothing of encryption"
    for queue in resources(plan, "aws_sqs_queue"):
        if not queue.values["sqs_managed_sse_enabled"]:
            yield f"{queue.address} is not encrypted"


def nothing_is_reached_from_the_internet(plan: Json) -> Iterator[str]:
    """No endpoint, subnet or security group."""
    for cluster in resources(plan, "aws_eks_cluster"):
        access = cluster.values["vpc_config"][0]
        ranges = [ip_network(written) for written in access.get("public_access_cidrs") or ("0.0.0.0/0",)]
        if access["endpoint_public_access"] and any(each.prefixlen < 16 for each in ranges):
            yield f"{cluster.address} answers the whole Internet"
        if not access["endpoint_private_access"]:
            yield f"{cluster.address} is reached by its nodes over the Internet"
    for subnet in resources(plan, "aws_subnet"):
        if subnet.values["map_public_ip_on_launch"]:
            yield f"{subnet.address} gives out public addresses"
    for rule in resources(plan, "aws_vpc_security_group_ingress_rule"):
        if {rule.values["cidr_ipv4"], rule.values["cidr_ipv6"]} & {"0.0.0.0/0", "::/0"}:
            yield f"{rule.address} lets everybody in"


def buckets_are_private(plan: Json) -> Iterator[str]:
    """Whatever a policy or an access list should say one day."""
    closed = ("block_public_acls", "block_public_policy", "ignore_public_acls", "restrict_public_buckets")
    blocks = resources(plan, "aws_s3_bucket_public_access_block")
    if len(blocks) != len(resources(plan, "aws_s3_bucket")):
        yield "a bucket has no public access block"
    for block in blocks:
        yield from (f"{block.address}: {name} is off" for name in closed if not block.values[name])


def nodes_give_no_credentials_away(plan: Json) -> Iterator[str]:
    """IMDSv2, and not for pods."""
    for template in resources(plan, "aws_launch_template"):
        options = template.values["metadata_options"][0]
        if options["http_tokens"] != "required" or options["http_put_response_hop_limit"] != 1:
            yield f"{template.address} answers without a token, or to pods"


def a_role_of_pods_is_one_accounts(plan: Json) -> Iterator[str]:
    """Whoever could tie a role of the environment to an account of theirs would else have its rights."""
    for role in resources(plan, "aws_iam_role"):
        (trust,) = json.loads(role.values["assume_role_policy"])["Statement"]
        tags = trust.get("Condition", {}).get("StringEquals", {})
        wanted = {f"aws:RequestTag/kubernetes-{what}" for what in ("namespace", "service-account")}
        if trust["Principal"]["Service"] == "pods.eks.amazonaws.com" and not tags.keys() >= wanted:
            yield f"{role.address} may be taken by any account of the cluster"


def efa_speaks_with_itself(plan: Json) -> Iterator[str]:
    """The group of EFA interfaces allows everything to and from itself."""
    group = "aws_security_group.efa.id"
    for way in ("ingress", "egress"):
        rules = expressions(plan, f"aws_vpc_security_group_{way}_rule").values()
        ends = [
            [rule["security_group_id"], rule["referenced_security_group_id"]] for rule in rules if _all_traffic(rule)
        ]
        if not any(all(group in end["references"] for end in pair) for pair in ends):
            yield f"EFA's security group has no {way} rule for itself"


def _all_traffic(rule: Json) -> bool:
    return bool(rule["ip_protocol"].get("constant_value") == "-1")


def lustre_is_linked_with_the_bucket(plan: Json) -> Iterator[str]:
    """By an association, since PERSISTENT_2 takes no import path; compressed, with a metadata configuration."""
    linked = resources(plan, "aws_fsx_data_repository_association")
    for system in resources(plan, "aws_fsx_lustre_file_system"):
        wanted = {"deployment_type": "PERSISTENT_2", "data_compression_type": "LZ4", "import_path": None}
        wrong = [name for name, value in wanted.items() if system.values[name] != value]
        yield from (f"{system.address}: {name} is {system.values[name]!r}" for name in wrong)
        if not system.values["metadata_configuration"]:
            yield f"{system.address} has no metadata configuration"
        if not linked:
            yield f"{system.address} is linked with no bucket"
    for link in linked:
        if not link.values["batch_import_meta_data_on_create"]:
            yield f"{link.address}: a file system made anew would not know what is in the bucket"


def lustre_is_reached_from_nodes(plan: Json) -> Iterator[str]:
    """Ports 988 and 1018 to 1023, both ways, among the servers and between them and the nodes."""
    ways = {f"aws_vpc_security_group_{way}_rule" for way in ("ingress", "egress")}
    found: dict[str, set[tuple[int, int]]] = {f"module.lustre.{way}.lustre": set() for way in ways}
    calls = "module.lustre.aws_vpc_security_group_ingress_rule.nodes"
    for rule in resources(plan, *ways):
        if "module.lustre" in rule.address:
            ports = (rule.values["from_port"], rule.values["to_port"])
            found.setdefault(rule.address.partition("[")[0], set()).add(ports)
    for address, open_ports in found.items():
        if open_ports != {(988, 988), (1018, 1023)}:
            yield f"{address}: Lustre's ports are {sorted(open_ports)}"
    if "var.client_group_id" not in str(expressions(plan).get(calls, {}).get("security_group_id")):
        yield "nobody lets Lustre's servers call the nodes"


def the_volume_in_kubernetes_is_the_file_system(plan: Json) -> Iterator[str]:
    """As far as it is known before there is one."""
    (system,), own = resources(plan, "aws_fsx_lustre_file_system"), volume("aws", plan)
    size = f"{system.values['storage_capacity']}Gi"
    if own["/spec/capacity/storage"] != size:
        yield f"{system.address} has {size}, the volume {own['/spec/capacity/storage']}"
    region = plan["variables"]["region"]["value"]
    if not own["/spec/csi/volumeAttributes/dnsname"].endswith(f".fsx.{region}.amazonaws.com"):
        yield f"the volume is not looked for in {region}"


def images_do_not_change(plan: Json) -> Iterator[str]:
    """A tag is one image for ever, looked through when it is pushed, and gone some day."""
    repositories = resources(plan, "aws_ecr_repository")
    for repository in repositories:
        if repository.values["image_tag_mutability"] != "IMMUTABLE":
            yield f"{repository.address} lets tags move"
        if not repository.values["image_scanning_configuration"][0]["scan_on_push"]:
            yield f"{repository.address} is not scanned"
    if len(resources(plan, "aws_ecr_lifecycle_policy")) != len(repositories):
        yield "a repository keeps everything"


def interruptions_are_heard(plan: Json) -> Iterator[str]:
    """Karpenter's queue gets the warnings of spot, of rebalancing, of health and of nodes that end."""
    rules = {rule.address.split("[")[-1]: rule for rule in resources(plan, "aws_cloudwatch_event_rule")}
    targets = {target.address.split("[")[-1] for target in resources(plan, "aws_cloudwatch_event_target")}
    patterns = " ".join(rule.values["event_pattern"] for rule in rules.values())
    for event in ("Spot Instance Interruption", "Rebalance Recommendation", "State-change", "AWS Health Event"):
        if event not in patterns:
            yield f"nobody hears of {event}"
    yield from (f"the rule {name} goes nowhere" for name in rules.keys() - targets)


def the_control_plane_is_logged(plan: Json) -> Iterator[str]:
    """All five logs, kept for a time."""
    for cluster in resources(plan, "aws_eks_cluster"):
        if len(cluster.values["enabled_cluster_log_types"]) != 5:
            yield f"{cluster.address} logs {cluster.values['enabled_cluster_log_types']} only"
    for group in resources(plan, "aws_cloudwatch_log_group"):
        if not group.values["retention_in_days"]:
            yield f"{group.address} is kept for ever"


def costs_are_found_and_limited(plan: Json) -> Iterator[str]:
    """Everything has the tags of project and environment, by which budget and anomaly detection find it."""
    provider: Any = plan["configuration"]["provider_config"]["aws"]["expressions"]
    if "local.tags" not in str(provider.get("default_tags")):
        yield "the provider sets no default tags"
    budgets, monitors = resources(plan, "aws_budgets_budget"), resources(plan, "aws_ce_anomaly_subscription")
    if not budgets or not monitors:
        yield "no budget, or no anomaly detection"
    for budget in budgets:
        if not any(notice["subscriber_email_addresses"] for notice in budget.values["notification"]):
            yield f"{budget.address} tells nobody"
        tags = {part["tags"][0]["key"] for part in budget.values["filter_expression"][0]["and"]}
        if tags != {"project", "environment"}:
            yield f"{budget.address} counts by {sorted(tags)}"
    for monitor in resources(plan, "aws_ce_anomaly_monitor"):
        watched = json.loads(monitor.values["monitor_specification"])
        if [part for part, value in watched.items() if value] != ["Tags"] or len(watched) != 6:
            yield f"{monitor.address} would be made anew by every plan"


POLICIES = (
    gpu_pools_scale_from_zero,
    spot_has_a_fallback,
    nodes_are_what_the_pipelines_ask_for,
    a_node_says_how_many_gpus_it_has,
    nodes_and_addons_follow_the_cluster,
    who_is_in_a_group_of_people_is_said,
    claims_find_nodes_in_their_zone,
    nodes_go_before_their_way_out,
    disks_are_encrypted,
    data_is_encrypted_with_the_environments_key,
    nothing_is_reached_from_the_internet,
    buckets_are_private,
    nodes_give_no_credentials_away,
    a_role_of_pods_is_one_accounts,
    efa_speaks_with_itself,
    lustre_is_linked_with_the_bucket,
    lustre_is_reached_from_nodes,
    the_volume_in_kubernetes_is_the_file_system,
    images_do_not_change,
    interruptions_are_heard,
    the_control_plane_is_logged,
    costs_are_found_and_limited,
)
