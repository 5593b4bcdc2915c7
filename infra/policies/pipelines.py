"""The cloud resources that pipelines, budget and charts need: nodes, tags, APIs, webhooks, accounts."""

import json
from collections.abc import Iterator, Mapping

from infra.policies.model import Environment, Json, Problem, Resource, Severity, blocks, label, policy
from pipelines.environments import GPU, SITES, Placement

# ports at which the control plane calls webhooks, beside 443 and 10250, which GKE opens itself: Kubeflow Pipelines
# (8443), and KServe, Trainer and JobSet (9443)
WEBHOOKS = {"8443", "9443"}
# the API of each type of resource, by the longest prefix of the type
_APIS = {
    "google_artifact_registry": "artifactregistry",
    "google_billing": "billingbudgets",
    "google_compute": "compute",
    "google_container": "container",
    "google_kms": "cloudkms",
    "google_filestore": "file",
    "google_logging": "logging",
    "google_lustre": "lustre",
    "google_monitoring": "monitoring",
    "google_project": "cloudresourcemanager",
    "google_project_iam_custom_role": "iam",
    "google_service_account": "iam",
    "google_service_networking": "servicenetworking",
    "google_storage": "storage",
}
# resources whose API every project has
_WITHOUT_API = {"google_project_service", "google_project_service_identity", "random_id", "time_sleep"}
# APIs that no resource uses, and what uses them
_USED_LATER = {
    "cloudresourcemanager": "the data of the project",
    "aiplatform": "endpoints on Vertex AI",
    "containerscanning": "scans of images",
    "iamcredentials": "tokens of pods",
}


def pools_of_nodes(environment: Environment) -> Iterator[tuple[Resource, Json, bool, list[Json]]]:
    """Yield each node pool with its labels, whether it is spot, and its taints."""
    for group in environment.of_type("aws_eks_node_group"):
        taints = group.values.get("taint") or []
        yield group, group.values["labels"], group.values["capacity_type"] == "SPOT", taints
    for pool in environment.of_type("google_container_node_pool"):
        node = pool.block("node_config")
        yield pool, node["labels"], bool(node.get("spot")), node.get("taint") or []


def _placements(environment: Environment) -> Mapping[str, Placement]:
    """Return the placements of steps by the node pool that they choose."""
    placements = SITES[environment.cloud].placements.values()
    return {placement.nodes["nightshift/pool"]: placement for placement in placements}


@policy("pipelines/environments.py")
def node_pools_match_the_placements_of_steps(environment: Environment) -> Iterator[Problem]:
    """A step stays pending where no pool has the labels that it selects, or one has a taint it does not tolerate."""
    pools = [*pools_of_nodes(environment)]
    for kind, placement in _placements(environment).items():
        matching = [pool for pool in pools if pool[1].get("nightshift/pool") == kind]
        # otherwise Karpenter or a GKE ComputeClass creates them
        if (kind == "general" or environment.provisioning == "autoscaler") and not any(
            placement.nodes.items() <= labels.items() for _, labels, *_ in matching
        ):
            allowed = f"one pool must have {dict(placement.nodes)}"
            yield Problem("node pools", "labels", [dict(pool[1]) for pool in pools], allowed)
        for pool, _, spot, taints in matching:
            tolerated = {
                (toleration.key, toleration.value)
                for toleration in placement.tolerations
                if toleration.key == GPU or spot
            }
            if {(taint["key"], taint["value"]) for taint in taints} != tolerated:
                yield Problem(pool.address, "taint", taints, f"steps only tolerate {sorted(tolerated)}")
            if any(taint["effect"] != "NO_SCHEDULE" for taint in taints):
                yield Problem(pool.address, "taint.effect", taints, "must be NO_SCHEDULE")


@policy("https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#nodeselector")
def node_selectors_match_existing_labels(environment: Environment) -> Iterator[Problem]:
    """A pod that selects a label or value that no node pool has stays pending forever."""
    pools = [dict(labels) for _, labels, *_ in pools_of_nodes(environment)]
    pools += [pool["spec"]["template"]["metadata"]["labels"] for pool in environment.of_kind("NodePool")]
    has_whole_gpus = any(labels.get("nightshift/gpus", "shared") != "shared" for labels in pools)
    contents = [(label(value), value) for value in environment.objects]
    contents += environment.values_files
    for where, path, selected in _node_selectors(contents) if pools else ():
        is_possible = has_whole_gpus or "gpu" not in selected.values()
        if is_possible and not any(selected.items() <= labels.items() for labels in pools):
            yield Problem(where, path, selected, f"nodes only have {[dict(labels) for labels in pools]}")


def _node_selectors(contents: list[tuple[str, Json]]) -> Iterator[tuple[str, str, Json]]:
    """Yield the labels by which pods select nodes, with the name in findings and the field."""
    for where, value in contents:
        for path, selected in blocks(value, "nodeSelector", "nodeLabels"):
            yield where, path, selected
        for path, term in blocks(value, "nodeSelectorTerms"):
            for expression in term.get("matchExpressions", []):
                if expression["operator"] == "In" and len(expression["values"]) == 1:
                    yield where, path, {expression["key"]: expression["values"][0]}


@policy("pipelines/environments.py")
def node_pools_declare_their_gpus(environment: Environment) -> Iterator[Problem]:
    """With another label nightshift/gpus a step occupies a node with more GPUs than it uses, or too few."""
    for pool in environment.of_type("google_container_node_pool"):
        accelerator = pool.block("node_config", "guest_accelerator")
        is_shared = accelerator.get("gpu_partition_size") or accelerator.get("gpu_sharing_config")
        expected = "shared" if is_shared else str(accelerator["count"]) if accelerator else None
        declared = (pool.block("node_config").get("labels") or {}).get("nightshift/gpus")
        if declared != expected:
            yield Problem(pool.address, "labels.nightshift/gpus", declared, f"must be {expected}")


@policy("https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/cost-alloc-tags.html", Severity.ADVICE)
def nodes_and_disks_have_the_tags_of_the_budget(environment: Environment) -> Iterator[Problem]:
    """The budget misses nodes and disks without its tags; EC2, Karpenter and the CSI driver do not add them."""
    for budget in environment.of_type("aws_budgets_budget"):
        parts = [tag for part in budget.values["filter_expression"][0]["and"] for tag in part["tags"]]
        budgeted = {tag["key"]: tag["values"][0] for tag in parts}
        for where, field, tags in _tagged(environment):
            if not budgeted.items() <= tags.items():
                yield Problem(where, field, tags, f"must include {budgeted}, the tags of the budget")


def _tagged(environment: Environment) -> Iterator[tuple[str, str, Json]]:
    """Yield everything that tags nodes and disks, with the field and the tags."""
    for template in environment.of_type("aws_launch_template"):
        entries = template.values.get("tag_specifications") or ()
        tags = {entry["resource_type"]: entry["tags"] or {} for entry in entries}
        for kind in ("instance", "network-interface", "volume"):
            yield template.address, f"tag_specifications.{kind}", tags.get(kind, {})
    for driver in environment.of_type("aws_eks_addon"):
        if driver.values["addon_name"] == "aws-ebs-csi-driver":
            text = str(driver.values.get("configuration_values"))
            controller = json.loads(text).get("controller", {}) if text.startswith("{") else {}
            yield driver.address, "configuration_values.extraVolumeTags", controller.get("extraVolumeTags", {})
    for nodes in environment.of_kind("EC2NodeClass"):
        if "role" in nodes["spec"]:  # the shared EC2NodeClass has neither role nor tags yet
            yield label(nodes), "tags", nodes["spec"].get("tags", {})


@policy("https://docs.cloud.google.com/kubernetes-engine/docs/how-to/private-clusters#add_firewall_rules")
def webhooks_are_reachable_from_the_control_plane(environment: Environment) -> Iterator[Problem]:
    """GKE opens ports 443 and 10250 only: a webhook at another one times out and blocks every apply."""
    rules = environment.of_type("google_compute_firewall")
    for rule in (rule for rule in rules if rule.values["name"].endswith("-webhooks")):
        ports = {port for allow in rule.values.get("allow") or () for port in allow.get("ports") or ()}
        if not ports >= WEBHOOKS:
            yield Problem(
                rule.address, "allow.ports", sorted(ports), f"must include {sorted(WEBHOOKS)}, the ports of webhooks"
            )


@policy("https://docs.cloud.google.com/service-usage/docs/enable-disable")
def exactly_the_required_apis_are_enabled(environment: Environment) -> Iterator[Problem]:
    """An apply fails where a resource's API is disabled, and an unused API is open to misuse."""
    services = environment.of_type("google_project_service")
    enabled = {service.values["service"].removesuffix(".googleapis.com") for service in services}
    needed = dict(_USED_LATER) if services else {}
    for resource in environment.resources if services else ():
        kinds = [kind for kind in _APIS if resource.type.startswith(kind)]
        if resource.type not in _WITHOUT_API and not kinds:
            allowed = "see that its API is enabled: which it is, is not known here"
            yield Problem(resource.address, "type", resource.type, allowed, severity=Severity.ADVICE)
        elif resource.type not in _WITHOUT_API:
            needed[_APIS[max(kinds, key=len)]] = resource.address
    for api in sorted(needed.keys() - enabled):
        yield Problem("google_project_service", "service", api, f"must be enabled for {needed[api]}")
    for api in sorted(enabled - needed.keys()):
        yield Problem("google_project_service", "service", api, "must not be enabled: no resource uses this API")


@policy("pipelines/environments.py")
def accounts_of_steps_have_a_cloud_identity(environment: Environment) -> Iterator[Problem]:
    """A step whose service account no cloud identity is bound to cannot read its data."""
    subjects = {str(grant.values.get("member")) for grant in environment.of_type("google_storage_bucket_iam_member")}
    subjects |= {
        f"/ns/{association.values['namespace']}/sa/{association.values['service_account']}"
        for association in environment.of_type("aws_eks_pod_identity_association")
    }
    for account in environment.of_kind("ServiceAccount"):
        meta = account["metadata"]
        name = f"/ns/{meta.get('namespace')}/sa/{meta['name']}"
        is_of_steps = meta["name"].startswith("nightshift") and meta.get("namespace") == "kubeflow"
        if subjects and is_of_steps and not any(subject.endswith(name) for subject in subjects):
            yield Problem(label(account), "metadata.name", name, "no cloud identity is bound to this account")
