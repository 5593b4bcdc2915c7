"""What every plan of Google Cloud has to keep: a policy says what breaks it."""

from collections.abc import Iterator
from pathlib import Path

import yaml

from infra.terraform import INFRA
from pipelines.environments import GCP, Role, Toleration
from tests.infra.plans import Json, Resource, expressions, groups_of_people, resources, volume

OVERLAY = INFRA / "kubernetes" / "gcp"
LABELS = {"application", "environment", "managed-by", "cost-center"}
# on the project as a whole; every other role is on one bucket, repository, key or account
PROJECT_ROLES = {"roles/container.defaultNodeServiceAccount"}
ANYBODY = {"allUsers", "allAuthenticatedUsers"}
# whom each firewall rule lets in
SOURCES = {
    "module.lustre.google_compute_firewall.callbacks": "var.servers",
    "module.cluster.google_compute_firewall.webhooks": "var.control_plane_range",
}
# what the control plane calls nodes at, beside 443 and 10250, which GKE opens itself: webhooks of Kubeflow Pipelines
# (8443) and of KServe, Trainer and JobSet (9443)
WEBHOOKS = {"8443", "9443"}
# the API that is asked for resources of each kind; the longest beginning of a type counts
APIS = {
    "google_artifact_registry": "artifactregistry",
    "google_billing": "billingbudgets",
    "google_compute": "compute",
    "google_container": "container",
    "google_kms": "cloudkms",
    "google_lustre": "lustre",
    "google_monitoring": "monitoring",
    "google_project": "cloudresourcemanager",
    "google_project_iam_custom_role": "iam",
    "google_service_account": "iam",
    "google_service_networking": "servicenetworking",
    "google_storage": "storage",
}
# Terraform switches APIs on by this one, which every project has
WITHOUT_API = {"google_project_service", "google_project_service_identity", "random_id"}
# what is asked for by no resource: images' scans, and tokens for pods
ASKED_LATER = {"containerscanning", "iamcredentials"}
# where each type names the key it is encrypted with
KEYS = {
    "google_artifact_registry_repository": ("kms_key_name",),
    "google_container_cluster": ("database_encryption", "key_name"),
    "google_container_node_pool": ("node_config", "boot_disk_kms_key"),
    "google_lustre_instance": ("kms_key",),
    "google_storage_bucket": ("encryption", "default_kms_key_name"),
}


def pools(plan: Json) -> list[Resource]:
    """The node pools: general and GPU."""
    return resources(plan, "google_container_node_pool")


def gpu_pools(plan: Json) -> list[Resource]:
    return [pool for pool in pools(plan) if node(pool)["guest_accelerator"]]


def node(pool: Resource) -> Json:
    config: Json = pool.values["node_config"][0]
    return config


def cluster(plan: Json) -> Json:
    (found,) = resources(plan, "google_container_cluster")
    return found.values


def gpu_pools_scale_from_zero_wherever_there_is_capacity(plan: Json) -> Iterator[str]:
    for pool in gpu_pools(plan):
        scaling = pool.values["autoscaling"][0]
        if scaling["total_min_node_count"] or pool.values["initial_node_count"]:
            yield f"{pool.address} keeps nodes that nobody uses"
        if scaling["location_policy"] != "ANY":
            yield f"{pool.address} waits for the scarce zone"


def spot_is_there_and_not_alone(plan: Json) -> Iterator[str]:
    spot = [node(pool)["spot"] for pool in gpu_pools(plan)]
    if not any(spot):
        yield "no GPU pool is spot"
    if all(spot):
        yield "no GPU pool is left when there is no spot"


def pools_have_the_labels_and_taints_that_steps_expect(plan: Json) -> Iterator[str]:
    gpu, spot = GCP.placements[Role.GPU].tolerations
    for pool in pools(plan):
        heavy = pool in gpu_pools(plan)
        wanted = dict((GCP.placements[Role.GPU] if heavy else GCP.placements[Role.LIGHT]).nodes)
        if heavy:
            wanted["nightshift/gpus"] = str(node(pool)["guest_accelerator"][0]["count"])
        if not wanted.items() <= node(pool)["labels"].items():
            yield f"{pool.address} is labelled {node(pool)['labels']}, not {wanted}"
        expected = [gpu] * heavy + [spot] * bool(node(pool)["spot"])
        taints = [Toleration(taint["key"], taint["value"]) for taint in node(pool)["taint"]]
        if taints != expected or any(taint["effect"] != "NO_SCHEDULE" for taint in node(pool)["taint"]):
            yield f"{pool.address} has the taints {taints}, not {expected}"


def nodes_are_shielded_and_act_as_an_account_of_their_own(plan: Json) -> Iterator[str]:
    for pool in pools(plan):
        config = node(pool)
        if not all(config["shielded_instance_config"][0].values()):
            yield f"{pool.address} is not shielded"
        if config["workload_metadata_config"][0]["mode"] != "GKE_METADATA":
            yield f"{pool.address} lends its own account to every pod"
    for address, written in expressions(plan, "google_container_node_pool").items():
        if "service_account" not in written["node_config"][0]:
            yield f"{address} acts as Compute Engine's default account"


def gpu_nodes_have_drivers_fast_network_and_scratch_space(plan: Json) -> Iterator[str]:
    for pool in gpu_pools(plan):
        config = node(pool)
        driver = config["guest_accelerator"][0]["gpu_driver_installation_config"][0]
        if driver["gpu_driver_version"] != "DEFAULT":
            yield f"{pool.address} installs no driver"
        if not config["gvnic"][0]["enabled"] or not config["gcfs_config"][0]["enabled"]:
            yield f"{pool.address} lacks gVNIC or image streaming"
        if not config["ephemeral_storage_local_ssd_config"][0]["local_ssd_count"]:
            yield f"{pool.address} has no local SSD"


def everything_is_encrypted_with_the_key(plan: Json) -> Iterator[str]:
    for address, written in expressions(plan, *KEYS).items():
        found = written
        for part in KEYS[address.split(".")[-2]]:
            found = found.get(part, {})
            found = found[0] if isinstance(found, list) else found
        if not found.get("references"):
            yield f"{address} is not encrypted with the project's key"


def the_control_plane_and_the_nodes_have_no_public_address(plan: Json) -> Iterator[str]:
    private = cluster(plan)["private_cluster_config"][0]
    if not private["enable_private_nodes"] or not private["enable_private_endpoint"]:
        yield "the cluster has public addresses"
    # its DNS name may answer from outside: Google's own entrance asks IAM before anything reaches the control plane
    if any(block["cidr_blocks"] for block in cluster(plan)["master_authorized_networks_config"]):
        yield "the control plane answers other networks"


def the_cluster_is_watched_and_enforces_network_policies(plan: Json) -> Iterator[str]:
    monitoring = cluster(plan)["monitoring_config"][0]
    if not monitoring["managed_prometheus"][0]["enabled"] or "DCGM" not in monitoring["enable_components"]:
        yield "nobody collects the metrics of GPUs"
    if cluster(plan)["datapath_provider"] != "ADVANCED_DATAPATH":
        yield "network policies are not enforced"
    if not cluster(plan)["cost_management_config"][0]["enabled"]:
        yield "costs are not split by namespace"


def buckets_are_private_and_keep_old_versions(plan: Json) -> Iterator[str]:
    for bucket in resources(plan, "google_storage_bucket"):
        if bucket.values["public_access_prevention"] != "enforced" or not bucket.values["uniform_bucket_level_access"]:
            yield f"{bucket.address} can be made public"
        if not bucket.values["versioning"][0]["enabled"]:
            yield f"{bucket.address} forgets what is overwritten"


def only_dev_can_be_destroyed_with_its_data(plan: Json) -> Iterator[str]:
    dev = plan["variables"]["environment"]["value"] == "dev"
    if cluster(plan)["deletion_protection"] == dev:
        yield "the cluster's protection is the wrong way round"
    for bucket in resources(plan, "google_storage_bucket"):
        if bucket.values["force_destroy"] != dev:
            yield f"{bucket.address}'s protection is the wrong way round"


def lustre_its_driver_and_the_firewall_speak_one_port(plan: Json) -> Iterator[str]:
    (instance,) = resources(plan, "google_lustre_instance")
    (firewall,) = (
        rule for rule in resources(plan, "google_compute_firewall") if rule.values["name"].endswith("-lustre")
    )
    driver = cluster(plan)["addons_config"][0]["lustre_csi_driver_config"][0]
    if not driver["enabled"]:
        yield "the cluster has no driver for Lustre"
    if driver["enable_legacy_lustre_port"] != instance.values["gke_support_enabled"]:
        yield "instance and driver speak different ports"
    port = "6988" if instance.values["gke_support_enabled"] else "988"
    if firewall.values["allow"] != [{"protocol": "tcp", "ports": [port]}]:
        yield f"the firewall does not let just port {port} through"


def the_firewall_lets_in_servers_of_lustre_and_the_control_plane_only(plan: Json) -> Iterator[str]:
    rules = expressions(plan, "google_compute_firewall")
    yield from (f"{address} is missing" for address in SOURCES.keys() - rules.keys())
    for address, written in rules.items():
        if written["source_ranges"].get("references") != [SOURCES.get(address)]:
            yield f"{address} lets others in"


def webhooks_are_reached_from_the_control_plane(plan: Json) -> Iterator[str]:
    for rule in resources(plan, "google_compute_firewall"):
        if rule.values["name"].endswith("-webhooks"):
            (allowed,) = rule.values["allow"]
            if not set(allowed["ports"]) >= WEBHOOKS:
                yield f"{rule.address}: the control plane waits in vain for {sorted(WEBHOOKS - set(allowed['ports']))}"
            if rule.values["source_ranges"] != [cluster(plan)["private_cluster_config"][0]["master_ipv4_cidr_block"]]:
                yield f"{rule.address}: the control plane has other addresses"


def every_api_that_is_asked_is_on(plan: Json) -> Iterator[str]:
    on = {
        found.values["service"].removesuffix(".googleapis.com") for found in resources(plan, "google_project_service")
    }
    needed = {"cloudresourcemanager": "the data of the project"} | dict.fromkeys(ASKED_LATER, "what runs later")
    for found in resources(plan):
        kinds = [kind for kind in APIS if found.type.startswith(kind)]
        if found.type not in WITHOUT_API and not kinds:
            yield f"{found.address}: nobody has said which API {found.type} asks"
        elif found.type not in WITHOUT_API:
            needed[APIS[max(kinds, key=len)]] = found.address
    yield from (f"{api} is off, and asked for {needed[api]}" for api in sorted(needed.keys() - on))
    yield from (f"{api} is on, and nobody asks it" for api in sorted(on - needed.keys()))


def who_is_in_a_group_of_people_is_said(plan: Json) -> Iterator[str]:
    """Kubernetes knows the members of the groups of one domain, who also have to find the cluster."""
    wanted = {group for group in groups_of_people() if "@" in group}
    (domain,) = {group.partition("@")[2] for group in wanted}
    if cluster(plan)["authenticator_groups_config"] != [{"security_group": f"gke-security-groups@{domain}"}]:
        yield "the cluster asks nobody who is in a group"
    people = resources(plan, "google_project_iam_member")
    found = {grant.values["member"] for grant in people if grant.values.get("member", "").startswith("group:")}
    yield from (f"nobody in {group} finds the cluster" for group in sorted(wanted) if f"group:{group}" not in found)


def images_stay_as_they_are_and_old_ones_go(plan: Json) -> Iterator[str]:
    for repository in resources(plan, "google_artifact_registry_repository"):
        if not repository.values["docker_config"][0]["immutable_tags"]:
            yield f"{repository.address} lets a tag move"
        if {policy["action"] for policy in repository.values["cleanup_policies"]} != {"KEEP", "DELETE"}:
            yield f"{repository.address} grows for ever"


def nobody_has_more_rights_than_needed(plan: Json) -> Iterator[str]:
    for grant in [found for found in resources(plan) if "_iam_" in found.type and "role" in found.values]:
        role = grant.values["role"]
        if grant.values.get("member") in ANYBODY:
            yield f"{grant.address} is for anybody"
        if role.lower().endswith(("admin", "/owner", "/editor", "/viewer")):
            yield f"{grant.address} grants {role}"
        if grant.type == "google_project_iam_member" and role not in PROJECT_ROLES:
            yield f"{grant.address} grants {role} on the whole project"


def steps_act_as_the_account_that_kubernetes_gives_them(plan: Json) -> Iterator[str]:
    namespace = yaml.safe_load((OVERLAY / "kustomization.yaml").read_text())["namespace"]
    objects = yaml.safe_load_all((OVERLAY.parent / "base" / "accounts.yaml").read_text())
    account = next(found["metadata"]["name"] for found in objects if found["kind"] == "ServiceAccount")
    bindings = [found.values.get("member", "") for found in resources(plan, "google_service_account_iam_member")]
    if not any(member.endswith(f".svc.id.goog[{namespace}/{account}]") for member in bindings):
        yield f"nothing ties {namespace}/{account} to an account of Google's"


def the_volume_in_kubernetes_is_the_instance(plan: Json) -> Iterator[str]:
    (instance,) = resources(plan, "google_lustre_instance")
    mounted = next(yaml.safe_load_all(Path(OVERLAY / "lustre.yaml").read_text()))["spec"]["csi"]
    if mounted["volumeAttributes"]["filesystem"] != instance.values["filesystem"]:
        yield f"lustre.yaml mounts {mounted['volumeAttributes']['filesystem']}"
    own, project = volume("gcp", plan), plan["variables"]["project_id"]["value"]
    wanted = {
        "/spec/capacity/storage": f"{instance.values['capacity_gib']}Gi",
        "/spec/csi/volumeHandle": f"{project}/{instance.values['location']}/{instance.values['instance_id']}",
    }
    yield from (f"{path} is {own[path]}, not {value}" for path, value in wanted.items() if own[path] != str(value))


def costs_can_be_attributed(plan: Json) -> Iterator[str]:
    """Labels: by the provider's defaults, and where these do not reach, on the cluster and on nodes' machines."""
    for name, provider in plan["configuration"]["provider_config"].items():
        if name.startswith("google") and provider["expressions"]["default_labels"]["references"] != ["local.labels"]:
            yield f"provider {name} sets no labels"
    labelled = [("the cluster", cluster(plan)["resource_labels"])]
    labelled += [(pool.address, node(pool)["resource_labels"]) for pool in pools(plan)]
    for what, labels in labelled:
        if not (labels or {}).keys() >= LABELS:
            yield f"{what} lacks labels"


def a_budget_warns_before_it_is_spent(plan: Json) -> Iterator[str]:
    (budget,) = resources(plan, "google_billing_budget")
    thresholds = [rule["threshold_percent"] for rule in budget.values["threshold_rules"]]
    if not min(thresholds) < 1 or not resources(plan, "google_monitoring_notification_channel"):
        yield "nobody hears of the budget in time"


POLICIES = (
    gpu_pools_scale_from_zero_wherever_there_is_capacity,
    spot_is_there_and_not_alone,
    pools_have_the_labels_and_taints_that_steps_expect,
    nodes_are_shielded_and_act_as_an_account_of_their_own,
    gpu_nodes_have_drivers_fast_network_and_scratch_space,
    everything_is_encrypted_with_the_key,
    the_control_plane_and_the_nodes_have_no_public_address,
    the_cluster_is_watched_and_enforces_network_policies,
    buckets_are_private_and_keep_old_versions,
    only_dev_can_be_destroyed_with_its_data,
    lustre_its_driver_and_the_firewall_speak_one_port,
    the_firewall_lets_in_servers_of_lustre_and_the_control_plane_only,
    webhooks_are_reached_from_the_control_plane,
    every_api_that_is_asked_is_on,
    who_is_in_a_group_of_people_is_said,
    images_stay_as_they_are_and_old_ones_go,
    nobody_has_more_rights_than_needed,
    steps_act_as_the_account_that_kubernetes_gives_them,
    the_volume_in_kubernetes_is_the_instance,
    costs_can_be_attributed,
    a_budget_warns_before_it_is_spent,
)
