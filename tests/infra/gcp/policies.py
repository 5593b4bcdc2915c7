"""Where Google Cloud's plans have to fit what the pipelines, Kubernetes and the charts say."""

from collections.abc import Iterator

import yaml

from infra.terraform import INFRA
from pipelines.environments import GCP, Role, Toleration
from tests.infra.plans import Json, Resource, groups_of_people, resources

OVERLAY = INFRA / "kubernetes" / "gcp"
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
    "google_filestore": "file",
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
# what is asked for by no resource: models on Vertex AI, images' scans, and tokens for pods
ASKED_LATER = {"aiplatform", "containerscanning", "iamcredentials"}


def pools(plan: Json) -> list[Resource]:
    """The node pools: general and GPU."""
    return resources(plan, "google_container_node_pool")


def gpu_pools(plan: Json) -> list[Resource]:
    return [pool for pool in pools(plan) if node(pool)["guest_accelerator"]]


def node(pool: Resource) -> Json:
    config: Json = pool.values["node_config"][0]
    return config


def cluster(plan: Json) -> Json:
    (resource,) = resources(plan, "google_container_cluster")
    return resource.values


def pools_have_the_labels_and_taints_that_steps_expect(plan: Json) -> Iterator[str]:
    gpu, spot = GCP.placements[Role.GPU].tolerations
    for pool in pools(plan):
        heavy = pool in gpu_pools(plan)
        wanted = dict((GCP.placements[Role.GPU] if heavy else GCP.placements[Role.LIGHT]).nodes)
        if heavy:
            (accelerator,) = node(pool)["guest_accelerator"]
            is_shared = accelerator.get("gpu_partition_size") or accelerator.get("gpu_sharing_config")
            wanted["nightshift/gpus"] = "shared" if is_shared else str(accelerator["count"])
        if not wanted.items() <= node(pool)["labels"].items():
            yield f"{pool.address} is labeled {node(pool)['labels']}, not {wanted}"
        expected = [gpu, *[spot] * bool(node(pool)["spot"])] * heavy
        taints = [Toleration(taint["key"], taint["value"]) for taint in node(pool)["taint"]]
        if taints != expected or any(taint["effect"] != "NO_SCHEDULE" for taint in node(pool)["taint"]):
            yield f"{pool.address} has the taints {taints}, not {expected}"


def webhooks_are_reached_from_the_control_plane(plan: Json) -> Iterator[str]:
    for rule in resources(plan, "google_compute_firewall"):
        if rule.values["name"].endswith("-webhooks"):
            (allowed,) = rule.values["allow"]
            if not set(allowed["ports"]) >= WEBHOOKS:
                yield f"{rule.address}: the control plane waits in vain for {sorted(WEBHOOKS - set(allowed['ports']))}"
            if rule.values["source_ranges"] != [cluster(plan)["private_cluster_config"][0]["master_ipv4_cidr_block"]]:
                yield f"{rule.address}: the control plane has other addresses"


def every_api_that_is_asked_is_on(plan: Json) -> Iterator[str]:
    on = {use.values["service"].removesuffix(".googleapis.com") for use in resources(plan, "google_project_service")}
    needed = {"cloudresourcemanager": "the data of the project"} | dict.fromkeys(ASKED_LATER, "what runs later")
    for resource in resources(plan):
        kinds = [kind for kind in APIS if resource.type.startswith(kind)]
        if resource.type not in WITHOUT_API and not kinds:
            yield f"{resource.address}: nobody has said which API {resource.type} asks"
        elif resource.type not in WITHOUT_API:
            needed[APIS[max(kinds, key=len)]] = resource.address
    yield from (f"{api} is off, and asked for {needed[api]}" for api in sorted(needed.keys() - on))
    yield from (f"{api} is on, and nobody asks it" for api in sorted(on - needed.keys()))


def who_is_in_a_group_of_people_is_said(plan: Json) -> Iterator[str]:
    """Kubernetes knows the members of the groups of one domain, who also have to find the cluster."""
    wanted = {group for group in groups_of_people() if "@" in group}
    (domain,) = {group.partition("@")[2] for group in wanted}
    if cluster(plan)["authenticator_groups_config"] != [{"security_group": f"gke-security-groups@{domain}"}]:
        yield "the cluster asks nobody who is in a group"
    people = resources(plan, "google_project_iam_member")
    members = {grant.values["member"] for grant in people if grant.values.get("member", "").startswith("group:")}
    yield from (f"nobody in {group} finds the cluster" for group in sorted(wanted) if f"group:{group}" not in members)


def buckets_know_the_accounts_of_steps(plan: Json) -> Iterator[str]:
    namespace = yaml.safe_load((OVERLAY / "kustomization.yaml").read_text())["namespace"]
    objects = yaml.safe_load_all((OVERLAY.parent / "base" / "accounts.yaml").read_text())
    accounts = [account["metadata"]["name"] for account in objects if account["kind"] == "ServiceAccount"]
    members = [grant.values.get("member", "") for grant in resources(plan, "google_storage_bucket_iam_member")]
    for account in accounts:
        if not any(member.endswith(f"/subject/ns/{namespace}/sa/{account}") for member in members):
            yield f"no bucket knows {namespace}/{account}"


POLICIES = (
    pools_have_the_labels_and_taints_that_steps_expect,
    webhooks_are_reached_from_the_control_plane,
    every_api_that_is_asked_is_on,
    who_is_in_a_group_of_people_is_said,
    buckets_know_the_accounts_of_steps,
)
