"""Nodes: image, disks, user data, accelerators and capacity type."""

import base64
import re
from collections.abc import Iterator
from email import message_from_string

from infra.policies.model import Environment, Json, Problem, Resource, Severity, label, one_of, policy, table
from nightshift.runtime import strict_yaml

_TABLE = "infra/policies/tables/machines.yaml"
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte")
_NODEADM = "https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/"


def _images(environment: Environment) -> Iterator[tuple[Resource, Resource]]:
    """Yield each node group of EKS with its launch template."""
    for group in environment.of_type("aws_eks_node_group"):
        template = environment.owners.get(str(group.block("launch_template").get("id")))
        if template:
            yield group, template


@policy(_TABLE)
def disks_are_mapped_to_the_root_device(environment: Environment) -> Iterator[Problem]:
    """A mapping of another device adds a second disk, and the root keeps the image's 20 GiB."""
    images = table("machines")["images"]
    for group, template in _images(environment):
        family = str(group.values["ami_type"]).partition("_")[0]
        devices = [mapping["device_name"] for mapping in template.values.get("block_device_mappings") or ()]
        if family in images and devices and images[family]["root"] not in devices:
            allowed = f"must be {images[family]['root']}, the root of {family} ({images[family]['source']})"
            yield Problem(template.address, "block_device_mappings.device_name", devices[0], allowed)
    for nodes in environment.of_kind("EC2NodeClass"):
        families = [term["alias"].partition("@")[0] for term in nodes["spec"]["amiSelectorTerms"] if "alias" in term]
        for device in (mapping["deviceName"] for mapping in nodes["spec"].get("blockDeviceMappings", [])):
            for image in (images[family] for family in families if family in images):
                if device != image["root"]:
                    allowed = f"must be the root, {image['root']} ({image['source']})"
                    yield Problem(label(nodes), "blockDeviceMappings.deviceName", device, allowed)


@policy("https://karpenter.sh/docs/concepts/nodeclasses/")
def image_aliases_have_a_family_and_version(environment: Environment) -> Iterator[Problem]:
    """Karpenter starts no nodes for an alias without a known family or a version."""
    for nodes in environment.of_kind("EC2NodeClass"):
        for alias in (term["alias"] for term in nodes["spec"]["amiSelectorTerms"] if "alias" in term):
            if not re.fullmatch(r"(al2023|al2|bottlerocket)@(latest|v[\w.]+)", alias):
                allowed = "must be a family and a version, such as al2023@latest"
                yield Problem(label(nodes), "amiSelectorTerms.alias", alias, allowed)


def node_configs(environment: Environment) -> Iterator[tuple[Resource, Json]]:
    """Yield each node group of EKS with the NodeConfig of its nodes."""
    for group, template in _images(environment):
        yield from ((group, config) for kind, config in _parts(template) if kind == "application/node.eks.aws")


def _parts(template: Resource) -> Iterator[tuple[str, Json]]:
    """Yield the content types and documents of user data."""
    text = template.values.get("user_data")
    for part in message_from_string(base64.b64decode(text).decode()).walk() if text else ():
        if not part.is_multipart():
            document = strict_yaml.load_document(str(part.get_payload()))
            yield part.get_content_type(), document if isinstance(document, dict) else {}


@policy(_NODEADM)
def user_data_is_a_valid_node_config(environment: Environment) -> Iterator[Problem]:
    """AL2023 ignores user data of another content type or field, so that nodes start without these settings."""
    known = table("machines")["node_config"]
    for template in environment.of_type("aws_launch_template"):
        for kind, config in _parts(template):
            if kind != known["content_type"]:
                allowed = f"must be {known['content_type']}, which nodeadm reads"
                yield Problem(template.address, "user_data.Content-Type", kind, allowed)
                continue
            for field, value, allowed in _node_config(config, known):
                yield Problem(template.address, f"user_data.{field}", value, f"{allowed} ({_NODEADM})")


def _node_config(config: Json, known: Json) -> Iterator[tuple[str, object, str]]:
    """Yield field, value and expected value where a NodeConfig differs from what the table knows."""
    for field in ("apiVersion", "kind"):
        if config.get(field) != known[field]:
            yield field, config.get(field), f"must be {known[field]}"
    for field in config.get("spec", {}).keys() - known["spec"]:
        yield f"spec.{field}", field, f"NodeConfig has no such field: {one_of(known['spec'])}"
    storage = config.get("spec", {}).get("instance", {}).get("localStorage")
    if storage and storage.get("strategy") not in known["strategies"]:
        field = "spec.instance.localStorage.strategy"
        yield field, storage.get("strategy"), one_of(known["strategies"])


@policy("https://docs.aws.amazon.com/eks/latest/userguide/eks-optimized-amis.html")
def images_fit_their_instance_types(environment: Environment) -> Iterator[Problem]:
    """GPUs do not work without NVIDIA's driver in the image, and an image of another architecture does not boot."""
    for group in environment.of_type("aws_eks_node_group"):
        image, kinds = str(group.values["ami_type"]), group.values.get("instance_types") or []
        with_gpu = [kind for kind in kinds if re.match(r"(g\d|gr\d|p\d)", kind)]
        with_arm = [kind for kind in kinds if re.match(r"[a-z]+\d+g[a-z]*\.", kind)]
        if bool(with_gpu) != ("NVIDIA" in image) and kinds:
            allowed = f"must {'' if with_gpu else 'not '}be an image with NVIDIA's driver, for {', '.join(kinds)}"
            yield Problem(group.address, "ami_type", image, allowed)
        if kinds and bool(with_arm) != ("ARM_64" in image):
            yield Problem(
                group.address, "ami_type", image, f"must be an image for the architecture of {', '.join(kinds)}"
            )


@policy("https://docs.aws.amazon.com/eks/latest/userguide/capacity-blocks-mng.html")
def capacity_settings_agree(environment: Environment) -> Iterator[Problem]:
    """Nodes do not start where group and template disagree on a capacity block, or spot has a reservation."""
    for group, template in _images(environment):
        capacity, market = group.values["capacity_type"], template.block("instance_market_options").get("market_type")
        reserved = template.block("capacity_reservation_specification", "capacity_reservation_target")
        expected = {"CAPACITY_BLOCK": "capacity-block"}.get(capacity)
        if market != expected:
            allowed = f"with capacity_type {capacity} it must be {expected}"
            yield Problem(template.address, "instance_market_options.market_type", market, allowed)
        if capacity == "CAPACITY_BLOCK" and not reserved.get("capacity_reservation_id"):
            yield Problem(template.address, "capacity_reservation_id", None, "must be the id of the capacity block")
        if capacity == "SPOT" and reserved:
            yield Problem(
                template.address, "capacity_reservation_target", reserved, "must be empty: spot uses no reservation"
            )


@policy("https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html")
def efa_interfaces_are_numbered_by_card(environment: Environment) -> Iterator[Problem]:
    """EC2 refuses to launch where the first interface is not for IP, or a card has no EFA device at its index."""
    for template in environment.of_type("aws_launch_template"):
        interfaces = template.values.get("network_interfaces") or []
        for interface in interfaces:
            card, device = interface.get("network_card_index"), interface.get("device_index")
            kind, field = interface.get("interface_type"), f"network_interfaces (card {card}, device {device})"
            first = (card, device) == (0, 0)
            if kind not in (("interface", "efa") if first else ("efa", "efa-only")):
                allowed = one_of(("interface", "efa") if first else ("efa", "efa-only"))
                yield Problem(template.address, f"{field}.interface_type", kind, allowed)
            if not first and device != (1 if card == 0 else 0):
                yield Problem(template.address, f"{field}.device_index", device, "must be 1 on card 0 and 0 on others")
        cards = [interface.get("network_card_index") for interface in interfaces[1:]]
        if cards and sorted(cards) != [*range(len(cards))]:
            allowed = "must count up from 0"
            yield Problem(template.address, "network_interfaces.network_card_index", cards, allowed)


@policy(_TABLE)
def node_groups_declare_the_gpus_of_their_instances(environment: Environment) -> Iterator[Problem]:
    """With another label steps get the wrong number of GPUs, and missing EFA interfaces cost bandwidth."""
    known = table("machines")
    for group, template in _images(environment):
        kind = (group.values.get("instance_types") or [template.values.get("instance_type")])[0]
        gpus = next((count for name, count in known["gpus"].items() if re.fullmatch(name, str(kind))), None)
        labels = group.values.get("labels") or {}
        declared = labels.get("nightshift/gpus")
        if gpus and declared not in (str(gpus), "shared"):
            yield Problem(
                group.address, "labels.nightshift/gpus", declared, f"must be {gpus}, as {kind} has, or shared"
            )
        if gpus and "k8s.amazonaws.com/accelerator" not in labels:
            allowed = "must include k8s.amazonaws.com/accelerator, by which the autoscaler knows GPU nodes"
            yield Problem(group.address, "labels", sorted(labels), allowed)
        interfaces = [
            interface
            for interface in template.values.get("network_interfaces") or ()
            if "efa" in interface["interface_type"]
        ]
        if interfaces and len(interfaces) != known["cards"].get(kind, len(interfaces)):
            allowed = f"must be {known['cards'][kind]}, the network cards of {kind}"
            yield Problem(template.address, "network_interfaces", len(interfaces), allowed)


@policy("https://karpenter.sh/docs/concepts/scheduling/")
def karpenter_requirements_are_known(environment: Environment) -> Iterator[Problem]:
    """A pool whose requirement no instance type meets starts no nodes."""
    known = table("machines")["requirements"]
    for pool in environment.of_kind("NodePool"):
        for requirement in pool["spec"]["template"]["spec"].get("requirements", []):
            key, operator = requirement["key"], requirement["operator"]
            if key.partition("/")[0] in ("karpenter.sh", "karpenter.k8s.aws") and key not in known:
                yield Problem(label(pool), "requirements.key", key, f"Karpenter has no such label: {one_of(known)}")
            if operator not in _OPERATORS:
                yield Problem(label(pool), f"requirements.{key}.operator", operator, one_of(_OPERATORS))
            for value in requirement.get("values", []):
                if operator in ("In", "NotIn") and value not in known.get(key, [value]):
                    yield Problem(label(pool), f"requirements.{key}", value, one_of(known[key]))


@policy("https://karpenter.sh/docs/concepts/nodepools/")
def node_pools_match_their_requirements(environment: Environment) -> Iterator[Problem]:
    """Without its taint any pod may run on spot, and with another label steps get the wrong number of GPUs."""
    for pool in environment.of_kind("NodePool"):
        template = pool["spec"]["template"]
        requirements = {
            requirement["key"]: requirement.get("values", [])
            for requirement in template["spec"].get("requirements", [])
        }
        spot = "spot" in requirements.get("karpenter.sh/capacity-type", [])
        taints = {taint["key"] for taint in template["spec"].get("taints", [])}
        if spot != ("nightshift/spot" in taints):
            allowed = f"must {'' if spot else 'not '}include nightshift/spot, which only spot pools have"
            yield Problem(label(pool), "taints", sorted(taints), allowed)
        gpus = template["metadata"].get("labels", {}).get("nightshift/gpus")
        if gpus and "nvidia.com/gpu" not in taints:
            allowed = "must include nvidia.com/gpu: any pod may run there, and keeps a GPU node from being empty"
            yield Problem(label(pool), "taints", sorted(taints), allowed)
        name, classes = template["spec"]["nodeClassRef"]["name"], environment.of_kind("EC2NodeClass")
        if name not in {node_class["metadata"]["name"] for node_class in classes}:
            yield Problem(label(pool), "nodeClassRef.name", name, "no EC2NodeClass has this name")
        counts = requirements.get("karpenter.k8s.aws/instance-gpu-count")
        if gpus and counts and counts != [gpus]:
            yield Problem(
                label(pool), "labels.nightshift/gpus", gpus, f"must be instance-gpu-count, {', '.join(counts)}"
            )


@policy("https://karpenter.sh/docs/concepts/nodeclasses/")
def karpenter_nodes_belong_to_this_cluster(environment: Environment) -> Iterator[Problem]:
    """Nodes with another cluster's role, subnets or security groups never join this one."""
    cluster = environment.facts["cluster"]
    nodes = {role.values.get("name") for role in environment.of_type("aws_iam_role")}
    tags = {f"kubernetes.io/cluster/{cluster}": "owned"}
    for subnet in environment.of_type("aws_subnet"):
        tags |= {key: value for key, value in (subnet.values.get("tags") or {}).items() if "/" in key}
    for node_class in environment.of_kind("EC2NodeClass"):
        role = node_class["spec"].get("role")
        # the shared EC2NodeClass has no role yet
        if nodes and role and role not in nodes:
            yield Problem(label(node_class), "role", role, f"must be {cluster}-nodes, the role of the cluster's nodes")
        for field in ("subnetSelectorTerms", "securityGroupSelectorTerms"):
            for term in node_class["spec"].get(field, []):
                for key, value in term.get("tags", {}).items():
                    if cluster and tags.get(key) != value:
                        yield Problem(
                            label(node_class),
                            f"{field}.{key}",
                            value,
                            f"no subnet or security group has this tag, only {tags}",
                        )


@policy(_TABLE)
def machine_types_have_their_accelerators_and_disks(environment: Environment) -> Iterator[Problem]:
    """Google refuses a node pool whose accelerators or local SSDs are not those of its machine type."""
    machines, hyperdisk = table("machines")["machines"], table("machines")["hyperdisk"]
    for pool in environment.of_type("google_container_node_pool"):
        node = pool.block("node_config")
        kind, disk = str(node.get("machine_type")), str(node.get("disk_type"))
        accelerator = pool.block("node_config", "guest_accelerator")
        ssds = pool.block("node_config", "ephemeral_storage_local_ssd_config").get("local_ssd_count")
        machine = machines.get(kind)
        if machine and accelerator.get("type") != machine["accelerator"]:
            yield Problem(pool.address, "guest_accelerator.type", accelerator.get("type"), f"{kind} has {machine}")
        if machine and accelerator.get("count") != machine["gpus"]:
            yield Problem(pool.address, "guest_accelerator.count", accelerator.get("count"), f"{kind} has {machine}")
        if machine and ssds is not None and ssds not in machine["ssds"]:
            allowed = f"{kind} supports {' or '.join(map(str, machine['ssds']))}"
            yield Problem(pool.address, "local_ssd_count", ssds, allowed)
        if not machine and accelerator:
            yield Problem(pool.address, "machine_type", kind, f"this type has no GPUs: {one_of(machines)}")
        if machine and (kind in hyperdisk) != disk.startswith("hyperdisk"):
            yield Problem(pool.address, "disk_type", disk, f"only {', '.join(hyperdisk)} use Hyperdisk")


@policy("https://docs.cloud.google.com/kubernetes-engine/docs/how-to/consuming-reservations")
def reservations_are_named_by_their_key(environment: Environment) -> Iterator[Problem]:
    """Without Google's key and a name nodes do not use the reservation; spot and flex-start cannot use one."""
    for pool in environment.of_type("google_container_node_pool"):
        affinity = pool.block("node_config", "reservation_affinity")
        kind, key = affinity.get("consume_reservation_type"), affinity.get("key")
        specific = kind == "SPECIFIC_RESERVATION"
        if key != ("compute.googleapis.com/reservation-name" if specific else None) and affinity:
            allowed = "must be compute.googleapis.com/reservation-name with SPECIFIC_RESERVATION, and absent otherwise"
            yield Problem(pool.address, "reservation_affinity.key", key, allowed)
        if affinity and specific != bool(affinity.get("values")):
            allowed = "must name the reservation with SPECIFIC_RESERVATION, and be absent otherwise"
            yield Problem(pool.address, "reservation_affinity.values", affinity.get("values"), allowed)
        elsewhere = pool.block("node_config").get("spot") or pool.block("node_config").get("flex_start")
        if elsewhere and kind not in (None, "NO_RESERVATION"):
            field = "reservation_affinity.consume_reservation_type"
            yield Problem(pool.address, field, kind, "must be NO_RESERVATION with spot or flex-start")


@policy("https://docs.cloud.google.com/kubernetes-engine/docs/concepts/dws")
def flex_start_nodes_end_and_are_not_repaired(environment: Environment) -> Iterator[Problem]:
    """Google refuses flex-start nodes without a duration, with repair, or with another upgrade strategy."""
    for pool in environment.of_type("google_container_node_pool"):
        node = pool.block("node_config")
        flex = bool(node.get("flex_start"))
        if flex and node.get("spot"):
            yield Problem(pool.address, "node_config.spot", True, "must be false: a pool is either spot or flex-start")
        if flex and not node.get("max_run_duration"):
            yield Problem(
                pool.address,
                "node_config.max_run_duration",
                None,
                "must be set: flex-start nodes run for a limited time",
            )
        repair = pool.block("management").get("auto_repair")
        if repair is not None and repair == flex:
            allowed = "must be false for flex-start, and true for other nodes"
            yield Problem(pool.address, "management.auto_repair", repair, allowed)
        strategy = pool.block("upgrade_settings").get("strategy")
        if (strategy == "SHORT_LIVED") != flex:
            allowed = "must be SHORT_LIVED for flex-start, and not for other pools"
            yield Problem(pool.address, "upgrade_settings.strategy", strategy, allowed)


@policy(
    "https://docs.cloud.google.com/kubernetes-engine/docs/concepts/cluster-autoscaler#location_policy", Severity.ADVICE
)
def gpu_pools_scale_from_zero_in_any_zone(environment: Environment) -> Iterator[Problem]:
    """A balanced GPU pool waits for the scarcest zone, and one with a minimum pays for idle GPUs."""
    for pool in environment.of_type("google_container_node_pool"):
        scaling, has_gpus = pool.block("autoscaling"), bool(pool.block("node_config", "guest_accelerator"))
        location, least = scaling.get("location_policy"), scaling.get("total_min_node_count") or 0
        if has_gpus and location != "ANY":
            allowed = "must be ANY with GPUs: BALANCED waits for the scarcest zone"
            yield Problem(pool.address, "autoscaling.location_policy", location, allowed)
        if has_gpus and least:
            allowed = "must be 0 with GPUs: idle ones cost as much as busy ones"
            yield Problem(pool.address, "autoscaling.total_min_node_count", least, allowed)
        most = scaling.get("total_max_node_count")
        if scaling and (most is None or most < max(least, 1)):
            allowed = f"must be at least {max(least, 1)}"
            yield Problem(pool.address, "autoscaling.total_max_node_count", most, allowed)
