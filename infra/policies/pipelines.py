"""The cloud resources that pipelines, budget and charts need: nodes, tags, APIs, webhooks, accounts."""

import json
from collections.abc import Iterator, Mapping

from infra.policies.model import Environment, Json, Problem, Resource, blocks, label, policy
from pipelines.environments import GPU, SITES, Placement

# what the control plane calls nodes at, beside 443 and 10250, which GKE opens itself: webhooks of Kubeflow Pipelines
# (8443) and of KServe, Trainer and JobSet (9443)
WEBHOOKS = {"8443", "9443"}
# the API that is asked for resources of each kind; the longest beginning of a type counts
_APIS = {
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
_WITHOUT_API = {"google_project_service", "google_project_service_identity", "random_id"}
# what is asked for by no resource: the project's data, models on Vertex AI, images' scans, and tokens for pods
_ASKED_LATER = {
    "cloudresourcemanager": "the data of the project",
    "aiplatform": "endpoints on Vertex AI",
    "containerscanning": "scans of images",
    "iamcredentials": "tokens of pods",
}


def _pools(environment: Environment) -> Iterator[tuple[Resource, Json, bool, list[Json]]]:
    """Yield each pool with its labels, whether it is spot, and its taints."""
    for group in environment.of_type("aws_eks_node_group"):
        taints = group.values.get("taint") or []
        yield group, group.values["labels"], group.values["capacity_type"] == "SPOT", taints
    for pool in environment.of_type("google_container_node_pool"):
        node = pool.block("node_config")
        yield pool, node["labels"], bool(node.get("spot")), node.get("taint") or []


def _wanted(environment: Environment) -> Mapping[str, Placement]:
    placements = SITES[environment.cloud].placements.values()
    return {placement.nodes["nightshift/pool"]: placement for placement in placements}


@policy("pipelines/environments.py")
def nodes_are_what_the_pipelines_ask_for(environment: Environment) -> Iterator[Problem]:
    """Labels and taints are those by which steps choose nodes."""
    pools = [*_pools(environment)]
    for kind, placement in _wanted(environment).items():
        own = [pool for pool in pools if pool[1].get("nightshift/pool") == kind]
        # otherwise Karpenter makes them, or GKE of a ComputeClass
        if (kind == "general" or environment.provisioning == "autoscaler") and not any(
            placement.nodes.items() <= labels.items() for _, labels, *_ in own
        ):
            yield Problem("node pools", "labels", [dict(pool[1]) for pool in pools], f"one has {dict(placement.nodes)}")
        for pool, _, spot, taints in own:
            tolerated = {
                (toleration.key, toleration.value)
                for toleration in placement.tolerations
                if toleration.key == GPU or spot
            }
            if {(taint["key"], taint["value"]) for taint in taints} != tolerated:
                yield Problem(pool.address, "taint", taints, f"steps tolerate {sorted(tolerated)}")
            if any(taint["effect"] != "NO_SCHEDULE" for taint in taints):
                yield Problem(pool.address, "taint.effect", taints, "it is NO_SCHEDULE")


@policy("https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#nodeselector")
def nodes_are_chosen_by_labels_that_some_have(environment: Environment) -> Iterator[Problem]:
    """A pod that asks for a label or a value of ours that no pool has waits for ever."""
    borne = [dict(labels) for _, labels, *_ in _pools(environment)]
    borne += [pool["spec"]["template"]["metadata"]["labels"] for pool in environment.of_kind("NodePool")]
    has_whole = any(labels.get("nightshift/gpus", "shared") != "shared" for labels in borne)
    described = [(label(value), value) for value in environment.objects]
    described += [(f"infra/cluster/values/{name}.yaml", values) for name, values in environment.values.items()]
    for where, path, wanted in _wanted_labels(described):
        is_of_gpus = "gpu" in wanted.values()
        if borne and not (is_of_gpus and not has_whole) and not any(wanted.items() <= have.items() for have in borne):
            yield Problem(where, path, wanted, f"nodes have {[dict(have) for have in borne]}")


def _wanted_labels(described: list[tuple[str, Json]]) -> Iterator[tuple[str, str, Json]]:
    """Yield the labels by which nodes are chosen, with who chooses and in which field."""
    for where, value in described:
        for path, wanted in blocks(value, "nodeSelector", "nodeLabels"):
            yield where, path, wanted
        for path, term in blocks(value, "nodeSelectorTerms"):
            for expression in term.get("matchExpressions", []):
                if expression["operator"] == "In" and len(expression["values"]) == 1:
                    yield where, path, {expression["key"]: expression["values"][0]}


@policy("pipelines/environments.py")
def pools_say_how_many_gpus_they_have(environment: Environment) -> Iterator[Problem]:
    """By the label nightshift/gpus a step chooses a node that has no more GPUs than it takes."""
    for pool in environment.of_type("google_container_node_pool"):
        accelerator = pool.block("node_config", "guest_accelerator")
        is_shared = accelerator.get("gpu_partition_size") or accelerator.get("gpu_sharing_config")
        wanted = "shared" if is_shared else str(accelerator["count"]) if accelerator else None
        label_of_pool = (pool.block("node_config").get("labels") or {}).get("nightshift/gpus")
        if label_of_pool != wanted:
            yield Problem(pool.address, "labels.nightshift/gpus", label_of_pool, f"it is {wanted}")


@policy("https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/cost-alloc-tags.html")
def what_costs_by_the_hour_bears_the_tags_of_the_budget(environment: Environment) -> Iterator[Problem]:
    """Nodes, their disks and those of claims: the provider's default tags do not reach what others create."""
    for budget in environment.of_type("aws_budgets_budget"):
        parts = [tag for part in budget.values["filter_expression"][0]["and"] for tag in part["tags"]]
        watched = {tag["key"]: tag["values"][0] for tag in parts}
        for where, field, tags in _tagged(environment):
            if not watched.items() <= tags.items():
                yield Problem(where, field, tags, f"the budget watches {watched}")


def _tagged(environment: Environment) -> Iterator[tuple[str, str, Json]]:
    for template in environment.of_type("aws_launch_template"):
        entries = template.values.get("tag_specifications") or ()
        named = {entry["resource_type"]: entry["tags"] or {} for entry in entries}
        for kind in ("instance", "network-interface", "volume"):
            yield template.address, f"tag_specifications.{kind}", named.get(kind, {})
    for driver in environment.of_type("aws_eks_addon"):
        if driver.values["addon_name"] == "aws-ebs-csi-driver":
            text = str(driver.values.get("configuration_values"))
            controller = json.loads(text).get("controller", {}) if text.startswith("{") else {}
            yield driver.address, "configuration_values.extraVolumeTags", controller.get("extraVolumeTags", {})
    for nodes in environment.of_kind("EC2NodeClass"):
        if "role" in nodes["spec"]:  # the one that all environments share has neither yet
            yield label(nodes), "tags", nodes["spec"].get("tags", {})


@policy("https://docs.cloud.google.com/kubernetes-engine/docs/how-to/private-clusters#add_firewall_rules")
def webhooks_are_reached_from_the_control_plane(environment: Environment) -> Iterator[Problem]:
    """GKE lets the control plane call nodes at 443 and 10250 only."""
    rules = environment.of_type("google_compute_firewall")
    for rule in (rule for rule in rules if rule.values["name"].endswith("-webhooks")):
        ports = {port for allow in rule.values.get("allow") or () for port in allow.get("ports") or ()}
        if not ports >= WEBHOOKS:
            yield Problem(rule.address, "allow.ports", sorted(ports), f"webhooks answer at {sorted(WEBHOOKS)} too")


@policy("https://docs.cloud.google.com/service-usage/docs/enable-disable")
def every_api_that_is_asked_is_on(environment: Environment) -> Iterator[Problem]:
    """Each resource's API, and those that are asked later, are on, and no other."""
    services = environment.of_type("google_project_service")
    on = {service.values["service"].removesuffix(".googleapis.com") for service in services}
    needed = dict(_ASKED_LATER) if services else {}
    for resource in environment.resources if services else ():
        kinds = [kind for kind in _APIS if resource.type.startswith(kind)]
        if resource.type not in _WITHOUT_API and not kinds:
            yield Problem(resource.address, "type", resource.type, "infra/policies/pipelines.py has to say its API")
        elif resource.type not in _WITHOUT_API:
            needed[_APIS[max(kinds, key=len)]] = resource.address
    for api in sorted(needed.keys() - on):
        yield Problem("google_project_service", "service", api, f"it is off, and asked for {needed[api]}")
    for api in sorted(on - needed.keys()):
        yield Problem("google_project_service", "service", api, "it is on, and nobody asks it")


@policy("pipelines/environments.py")
def steps_act_as_the_accounts_that_kubernetes_gives_them(environment: Environment) -> Iterator[Problem]:
    """Every account of a step is tied to an identity of the cloud, under its own name and namespace."""
    ties = {str(grant.values.get("member")) for grant in environment.of_type("google_storage_bucket_iam_member")}
    ties |= {
        f"/ns/{tie.values['namespace']}/sa/{tie.values['service_account']}"
        for tie in environment.of_type("aws_eks_pod_identity_association")
    }
    for account in environment.of_kind("ServiceAccount"):
        meta = account["metadata"]
        name = f"/ns/{meta.get('namespace')}/sa/{meta['name']}"
        steps = meta["name"].startswith("nightshift") and meta.get("namespace") == "kubeflow"
        if ties and steps and not any(tie.endswith(name) for tie in ties):
            yield Problem(label(account), "metadata.name", name, "no identity of the cloud is tied to it")
