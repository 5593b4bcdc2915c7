"""Nodes: image, disks, user data, accelerators and capacity type."""

import base64
import re
from collections.abc import Iterator
from email import message_from_string

import yaml

from infra.policies.model import Environment, Json, Problem, Resource, label, policy, table

_TABLE = "infra/policies/tables/machines.yaml"
_NODEADM = "https://awslabs.github.io/amazon-eks-ami/nodeadm/doc/api/"


def _images(environment: Environment) -> Iterator[tuple[Resource, Resource]]:
    """Yield each node group of EKS with its launch template."""
    for group in environment.of_type("aws_eks_node_group"):
        template = environment.owners.get(str(group.block("launch_template").get("id")))
        if template:
            yield group, template


@policy(_TABLE)
def the_disk_is_the_images_root(environment: Environment) -> Iterator[Problem]:
    """A mapping of another device is a second disk, and the root keeps the image's 20 GiB."""
    images = table("machines")["images"]
    for group, template in _images(environment):
        family = str(group.values["ami_type"]).partition("_")[0]
        devices = [mapping["device_name"] for mapping in template.values.get("block_device_mappings") or ()]
        if family in images and devices and images[family]["root"] not in devices:
            allowed = f"the root of {family} is {images[family]['root']} ({images[family]['source']})"
            yield Problem(template.address, "block_device_mappings.device_name", devices[0], allowed)
    for nodes in environment.of_kind("EC2NodeClass"):
        families = [term["alias"].partition("@")[0] for term in nodes["spec"]["amiSelectorTerms"] if "alias" in term]
        for device in (mapping["deviceName"] for mapping in nodes["spec"].get("blockDeviceMappings", [])):
            for image in (images[family] for family in families if family in images):
                if device != image["root"]:
                    allowed = f"the root is {image['root']} ({image['source']})"
                    yield Problem(label(nodes), "blockDeviceMappings.deviceName", device, allowed)


@policy("https://karpenter.sh/docs/concepts/nodeclasses/")
def karpenters_images_have_a_family(environment: Environment) -> Iterator[Problem]:
    """An alias is a family and a version."""
    for nodes in environment.of_kind("EC2NodeClass"):
        for alias in (term["alias"] for term in nodes["spec"]["amiSelectorTerms"] if "alias" in term):
            if not re.fullmatch(r"(al2023|al2|bottlerocket)@(latest|v[\w.]+)", alias):
                yield Problem(
                    label(nodes), "amiSelectorTerms.alias", alias, "it is a family and a version: al2023@latest"
                )


@policy(_NODEADM)
def user_data_are_what_the_image_reads(environment: Environment) -> Iterator[Problem]:
    """AL2023 reads a NodeConfig out of a part of its own type, and takes no other field or spelling."""
    known = table("machines")["node_config"]
    for template in environment.of_type("aws_launch_template"):
        text = template.values.get("user_data")
        if not text:
            continue
        for part in message_from_string(base64.b64decode(text).decode()).walk():
            if part.is_multipart():
                continue
            if part.get_content_type() != known["content_type"]:
                allowed = f"nodeadm reads parts of {known['content_type']}"
                yield Problem(template.address, "user_data.Content-Type", part.get_content_type(), allowed)
            else:
                for field, value, allowed in _node_config(yaml.safe_load(str(part.get_payload())), known):
                    yield Problem(template.address, f"user_data.{field}", value, f"{allowed} ({_NODEADM})")


def _node_config(config: Json, known: Json) -> Iterator[tuple[str, object, str]]:
    for field in ("apiVersion", "kind"):
        if config.get(field) != known[field]:
            yield field, config.get(field), f"it is {known[field]}"
    for field in config.get("spec", {}).keys() - known["spec"]:
        yield f"spec.{field}", field, f"a NodeConfig has {', '.join(known['spec'])}"
    storage = config.get("spec", {}).get("instance", {}).get("localStorage", {})
    if storage.get("strategy") not in known["strategies"]:
        field = "spec.instance.localStorage.strategy"
        yield field, storage.get("strategy"), f"it is one of {', '.join(known['strategies'])}"


@policy("https://docs.aws.amazon.com/eks/latest/userguide/eks-optimized-amis.html")
def the_image_fits_the_instances(environment: Environment) -> Iterator[Problem]:
    """GPUs want the image with NVIDIA's driver, and Graviton one for arm64."""
    for group in environment.of_type("aws_eks_node_group"):
        image, kinds = str(group.values["ami_type"]), group.values.get("instance_types") or []
        with_gpu = [kind for kind in kinds if re.match(r"(g\d|gr\d|p\d)", kind)]
        with_arm = [kind for kind in kinds if re.match(r"[a-z]+\d+g[a-z]*\.", kind)]
        if bool(with_gpu) != ("NVIDIA" in image) and kinds:
            allowed = f"{', '.join(kinds)} want {'an' if with_gpu else 'no'} image with NVIDIA in its type"
            yield Problem(group.address, "ami_type", image, allowed)
        if kinds and bool(with_arm) != ("ARM_64" in image):
            yield Problem(group.address, "ami_type", image, f"{', '.join(kinds)} are of another architecture")


@policy("https://docs.aws.amazon.com/eks/latest/userguide/capacity-blocks-mng.html")
def capacity_is_asked_for_in_one_way(environment: Environment) -> Iterator[Problem]:
    """A capacity block is named by market type, template and group alike; spot takes no reservation."""
    for group, template in _images(environment):
        capacity, market = group.values["capacity_type"], template.block("instance_market_options").get("market_type")
        reserved = template.block("capacity_reservation_specification", "capacity_reservation_target")
        wanted = {"CAPACITY_BLOCK": "capacity-block"}.get(capacity)
        if market != wanted:
            allowed = f"with capacity_type {capacity} it is {wanted}"
            yield Problem(template.address, "instance_market_options.market_type", market, allowed)
        if capacity == "CAPACITY_BLOCK" and not reserved.get("capacity_reservation_id"):
            yield Problem(template.address, "capacity_reservation_id", None, "a capacity block is named by its id")
        if capacity == "SPOT" and reserved:
            yield Problem(template.address, "capacity_reservation_target", reserved, "spot uses no reservation")


@policy("https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa-acc-inst-types.html")
def efa_interfaces_are_numbered_as_cards(environment: Environment) -> Iterator[Problem]:
    """The first interface speaks IP; each card then has one for EFA: device 1 of card 0, device 0 of others."""
    for template in environment.of_type("aws_launch_template"):
        interfaces = template.values.get("network_interfaces") or []
        for interface in interfaces:
            card, device = interface.get("network_card_index"), interface.get("device_index")
            kind, field = interface.get("interface_type"), f"network_interfaces (card {card}, device {device})"
            first = (card, device) == (0, 0)
            if kind not in (("interface", "efa") if first else ("efa", "efa-only")):
                allowed = "the first is interface or efa, and every other one efa-only or efa"
                yield Problem(template.address, f"{field}.interface_type", kind, allowed)
            if not first and device != (1 if card == 0 else 0):
                yield Problem(template.address, f"{field}.device_index", device, "it is 1 on card 0 and 0 on others")
        cards = [interface.get("network_card_index") for interface in interfaces[1:]]
        if cards and sorted(cards) != [*range(len(cards))]:
            yield Problem(template.address, "network_interfaces.network_card_index", cards, "cards are counted from 0")


@policy(_TABLE)
def a_group_has_the_gpus_of_its_instances(environment: Environment) -> Iterator[Problem]:
    """The label of GPUs and the number of EFA interfaces are those of the instance type."""
    known = table("machines")
    for group, template in _images(environment):
        kind = (group.values.get("instance_types") or [template.values.get("instance_type")])[0]
        gpus = next((count for name, count in known["gpus"].items() if re.fullmatch(name, str(kind))), None)
        labels = group.values.get("labels") or {}
        shown = labels.get("nightshift/gpus")
        if gpus and shown not in (str(gpus), "shared"):
            yield Problem(group.address, "labels.nightshift/gpus", shown, f"{kind} has {gpus}")
        if gpus and "k8s.amazonaws.com/accelerator" not in labels:
            allowed = "the autoscaler knows nodes with GPUs by k8s.amazonaws.com/accelerator"
            yield Problem(group.address, "labels", sorted(labels), allowed)
        interfaces = [
            interface
            for interface in template.values.get("network_interfaces") or ()
            if "efa" in interface["interface_type"]
        ]
        if interfaces and len(interfaces) != known["cards"].get(kind, len(interfaces)):
            yield Problem(
                template.address, "network_interfaces", len(interfaces), f"{kind} has {known['cards'][kind]} cards"
            )


@policy("https://karpenter.sh/docs/concepts/scheduling/")
def karpenter_knows_the_values_it_is_asked_for(environment: Environment) -> Iterator[Problem]:
    """A pool whose requirement no instance type meets starts no nodes."""
    known = table("machines")["requirements"]
    for pool in environment.of_kind("NodePool"):
        for requirement in pool["spec"]["template"]["spec"].get("requirements", []):
            key, operator = requirement["key"], requirement["operator"]
            if key.partition("/")[0] in ("karpenter.sh", "karpenter.k8s.aws") and key not in known:
                yield Problem(label(pool), "requirements.key", key, f"Karpenter has {', '.join(known)}")
            if operator not in ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Gte", "Lte"):
                yield Problem(
                    label(pool), f"requirements.{key}.operator", operator, "it is In, NotIn, Exists, Gt or Lt"
                )
            for value in requirement.get("values", []):
                if operator in ("In", "NotIn") and value not in known.get(key, [value]):
                    yield Problem(label(pool), f"requirements.{key}", value, f"it is one of {', '.join(known[key])}")


@policy("https://karpenter.sh/docs/concepts/nodepools/")
def a_pools_labels_fit_its_requirements(environment: Environment) -> Iterator[Problem]:
    """Pods for a spot pool tolerate its taint, and the label of GPUs is the number that the pool's machines have."""
    for pool in environment.of_kind("NodePool"):
        template = pool["spec"]["template"]
        wanted = {
            requirement["key"]: requirement.get("values", [])
            for requirement in template["spec"].get("requirements", [])
        }
        spot = "spot" in wanted.get("karpenter.sh/capacity-type", [])
        taints = {taint["key"] for taint in template["spec"].get("taints", [])}
        if spot != ("nightshift/spot" in taints):
            allowed = "pools of spot, and no others, have the taint nightshift/spot"
            yield Problem(label(pool), "taints", sorted(taints), allowed)
        name, classes = template["spec"]["nodeClassRef"]["name"], environment.of_kind("EC2NodeClass")
        if name not in {node_class["metadata"]["name"] for node_class in classes}:
            yield Problem(label(pool), "nodeClassRef.name", name, "it names an EC2NodeClass that is there")
        gpus = template["metadata"].get("labels", {}).get("nightshift/gpus")
        counts = wanted.get("karpenter.k8s.aws/instance-gpu-count")
        if gpus and counts and counts != [gpus]:
            yield Problem(label(pool), "labels.nightshift/gpus", gpus, f"instance-gpu-count is {', '.join(counts)}")


@policy("https://karpenter.sh/docs/concepts/nodeclasses/")
def karpenters_nodes_are_of_this_cluster(environment: Environment) -> Iterator[Problem]:
    """Role, subnets and groups of an EC2NodeClass bear the cluster's name."""
    cluster = environment.facts["cluster"]
    nodes = {role.values.get("name") for role in environment.of_type("aws_iam_role")}
    tags = {f"kubernetes.io/cluster/{cluster}": "owned"}
    for subnet in environment.of_type("aws_subnet"):
        tags |= {key: value for key, value in (subnet.values.get("tags") or {}).items() if "/" in key}
    for node_class in environment.of_kind("EC2NodeClass"):
        role = node_class["spec"].get("role")
        # the one that all environments share has none yet
        if nodes and role and role not in nodes:
            yield Problem(label(node_class), "role", role, f"the cluster's nodes have {cluster}-nodes")
        for field in ("subnetSelectorTerms", "securityGroupSelectorTerms"):
            for term in node_class["spec"].get(field, []):
                for key, value in term.get("tags", {}).items():
                    if cluster and tags.get(key) != value:
                        yield Problem(label(node_class), f"{field}.{key}", value, f"what is there bears {tags}")


@policy(_TABLE)
def a_machine_has_its_accelerators_and_disks(environment: Environment) -> Iterator[Problem]:
    """Google's machine types fix accelerator, number and local SSDs."""
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
            allowed = f"{kind} takes {' or '.join(map(str, machine['ssds']))}"
            yield Problem(pool.address, "local_ssd_count", ssds, allowed)
        if not machine and accelerator:
            yield Problem(pool.address, "machine_type", kind, f"with GPUs it is one of {', '.join(machines)}")
        if machine and (kind in hyperdisk) != disk.startswith("hyperdisk"):
            yield Problem(pool.address, "disk_type", disk, f"{', '.join(hyperdisk)}, and no others, take Hyperdisk")


@policy("https://docs.cloud.google.com/kubernetes-engine/docs/how-to/consuming-reservations")
def a_reservation_is_named_by_its_key(environment: Environment) -> Iterator[Problem]:
    """A specific reservation has Google's key and a name; spot and flex-start consume none."""
    for pool in environment.of_type("google_container_node_pool"):
        affinity = pool.block("node_config", "reservation_affinity")
        kind, key = affinity.get("consume_reservation_type"), affinity.get("key")
        specific = kind == "SPECIFIC_RESERVATION"
        if key != ("compute.googleapis.com/reservation-name" if specific else None) and affinity:
            allowed = "it is compute.googleapis.com/reservation-name with SPECIFIC_RESERVATION, and absent without"
            yield Problem(pool.address, "reservation_affinity.key", key, allowed)
        if affinity and specific != bool(affinity.get("values")):
            yield Problem(
                pool.address, "reservation_affinity.values", affinity.get("values"), "it names the reservation"
            )
        elsewhere = pool.block("node_config").get("spot") or pool.block("node_config").get("flex_start")
        if elsewhere and kind not in (None, "NO_RESERVATION"):
            field = "reservation_affinity.consume_reservation_type"
            yield Problem(pool.address, field, kind, "spot and flex-start are NO_RESERVATION")


@policy("https://docs.cloud.google.com/kubernetes-engine/docs/concepts/dws")
def flex_start_nodes_end_and_are_not_repaired(environment: Environment) -> Iterator[Problem]:
    """Flex-start has a duration, no repair, and upgrades of its own strategy."""
    for pool in environment.of_type("google_container_node_pool"):
        node = pool.block("node_config")
        flex = bool(node.get("flex_start"))
        if flex and node.get("spot"):
            yield Problem(pool.address, "node_config.spot", True, "a pool is spot or flex-start")
        if flex and not node.get("max_run_duration"):
            yield Problem(pool.address, "node_config.max_run_duration", None, "it says when a flex-start node ends")
        repair = pool.block("management").get("auto_repair")
        if repair is not None and repair == flex:
            allowed = "flex-start nodes are not repaired, and all others are"
            yield Problem(pool.address, "management.auto_repair", repair, allowed)
        strategy = pool.block("upgrade_settings").get("strategy")
        if (strategy == "SHORT_LIVED") != flex:
            allowed = "it is SHORT_LIVED for flex-start and no other pool"
            yield Problem(pool.address, "upgrade_settings.strategy", strategy, allowed)


@policy("https://docs.cloud.google.com/kubernetes-engine/docs/concepts/cluster-autoscaler#location_policy")
def scarce_capacity_is_taken_where_it_is(environment: Environment) -> Iterator[Problem]:
    """A pool of GPUs takes any zone's and starts empty; upgrades never take a node that is the only one."""
    for pool in environment.of_type("google_container_node_pool"):
        scaling, heavy = pool.block("autoscaling"), bool(pool.block("node_config", "guest_accelerator"))
        policy_of_zones = scaling.get("location_policy")
        if heavy and policy_of_zones != "ANY":
            yield Problem(
                pool.address,
                "autoscaling.location_policy",
                policy_of_zones,
                "with GPUs it is ANY: BALANCED waits for the scarce zone",
            )
        if heavy and scaling.get("total_min_node_count"):
            yield Problem(
                pool.address,
                "autoscaling.total_min_node_count",
                scaling["total_min_node_count"],
                "an idle GPU costs as much as a busy one: it is 0",
            )
        least, most = scaling.get("total_min_node_count") or 0, scaling.get("total_max_node_count")
        if scaling and (most is None or most < max(least, 1)):
            yield Problem(pool.address, "autoscaling.total_max_node_count", most, "it is the minimum or more")
