"""What an edit adds is judged by the rules that it meets, here each alone in an environment."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from infra.policies import settings
from infra.policies.findings import find
from infra.policies.model import Environment, Resource
from infra.terraform import INFRA

POOLS = Resource(
    "pool", "google_container_node_pool", {"autoscaling": [{"total_max_node_count": 25}], "node_locations": ["a"]}
)
NODES = Resource(
    "nodes", "aws_eks_node_group", {"instance_types": ["p4d.24xlarge"], "scaling_config": [{"max_size": 2}]}
)


def environment(
    *content: Resource | dict[str, Any], values: Mapping[str, Any] | None = None, infra: Path = INFRA
) -> Environment:
    """An environment of some resources and objects."""
    resources = tuple(value for value in content if isinstance(value, Resource))
    objects = tuple(value for value in content if not isinstance(value, Resource))
    return Environment("aws", "mine", resources, objects, values or {}, infra, "us-east-1", "123456789012")


def manifest(kind: str, **content: Any) -> dict[str, Any]:
    """An object of Kubernetes, with `metadata` beside its content."""
    return {"apiVersion": "v1", "kind": kind, "metadata": {"namespace": "n", "name": "one"}} | content


def grant(kind: str, role: str, **members: Any) -> Resource:
    """A grant on the bucket `lake`."""
    return Resource(kind, f"google_storage_bucket_iam_{kind}", {"bucket": "lake", "role": role} | members)


def firewall(name: str, priority: int, **content: Any) -> Resource:
    """A rule on what nodes send."""
    common = {"direction": "EGRESS", "network": "n", "priority": priority, "destination_ranges": ["10.0.0.0/8"]}
    return Resource(name, "google_compute_firewall", common | content)


def nat(*addresses: str) -> Resource:
    return Resource("nat", "google_compute_router_nat", {"nat_ips": [*addresses], "min_ports_per_vm": 4096})


def workflow(subject: str) -> Resource:
    """A role that a workflow may take."""
    condition = {"StringLike": {"token.actions.githubusercontent.com:sub": subject}}
    statement = {"Effect": "Allow", "Action": "sts:AssumeRoleWithWebIdentity", "Condition": condition}
    return Resource("ci", "aws_iam_role", {"assume_role_policy": json.dumps({"Statement": [statement]})})


def scaled(least: int) -> dict[str, Any]:
    trigger = {"type": "prometheus", "metadata": {"threshold": "4"}}
    return manifest("ScaledObject", spec={"minReplicaCount": least, "triggers": [trigger]})


def policy(*types: str) -> dict[str, Any]:
    return manifest("NetworkPolicy", spec={"podSelector": {}, "policyTypes": [*types], "egress": [{"to": []}]})


def pool(*taints: str) -> dict[str, Any]:
    """A pool of GPU nodes of Karpenter."""
    spec = {"nodeClassRef": {"name": "gpu"}, "taints": [{"key": key} for key in taints]}
    return manifest("NodePool", spec={"template": {"metadata": {"labels": {"nightshift/gpus": "1"}}, "spec": spec}})


def broken(rule: str, judged: Environment) -> list[str]:
    """What a rule says of an environment."""
    return [finding.text for finding in find(judged) if finding.rule == rule]


QUOTA = manifest("ResourceQuota", spec={"hard": {"limits.cpu": "8"}})
RANGE = manifest("LimitRange", spec={"limits": [{"default": {"cpu": "1"}}]})
VPC = Resource("vpc", "aws_vpc", {"cidr_block": "10.0.0.0/16"})
READERS = grant("member", "roles/storage.objectViewer", member="serviceAccount:steps")


def services(cidr: str) -> Resource:
    return Resource("eks", "aws_eks_cluster", {"kubernetes_network_config": [{"service_ipv4_cidr": cidr}]})


def caps(cores: str) -> Environment:
    return environment(NODES, values={"cluster-autoscaler": {"extraArgs": {"cores-total": cores}}})


def airflow(*entries: dict[str, str]) -> Environment:
    """The values of Airflow's chart, whose entries charts.yaml fills in by their place."""
    return environment(values={"airflow": {"env": [*entries]}})


ENTRIES = [{"name": "SITE"}, {"name": "NAMESPACE", "value": "kubeflow"}, *({"name": name} for name in "abc")]
DENY = firewall("none", 1000, deny=[{"protocol": "all"}])


@pytest.mark.parametrize(
    ("rule", "wrong", "right"),
    [
        ("ranges_do_not_overlap", (VPC, services("10.0.240.0/20")), (VPC, services("172.20.0.0/16"))),
        ("gateways_have_ports_for_all_nodes", (POOLS, nat("a")), (POOLS, nat("a", "b"))),
        (
            "allowed_traffic_comes_before_denied",
            (DENY, firewall("some", 1000, allow=[{"protocol": "tcp"}])),
            (DENY, firewall("some", 900, allow=[{"protocol": "tcp"}])),
        ),
        (
            "grants_do_not_replace_each_other",
            (READERS, grant("binding", "roles/storage.objectViewer", members=["group:analysts"])),
            (READERS, grant("binding", "roles/storage.legacyBucketReader", members=["group:analysts"])),
        ),
        ("workflows_are_of_one_owner", (workflow("repo:acme*"),), (workflow("repo:acme/fraud:*"),)),
        ("node_pools_match_their_requirements", (pool(),), (pool("nvidia.com/gpu"),)),
        ("quotas_have_defaults", (QUOTA,), (QUOTA, RANGE)),
        ("network_policies_name_their_directions", (policy("Ingress"),), (policy("Ingress", "Egress"),)),
        ("scaled_objects_stay_within_bounds", (scaled(0),), (scaled(1),)),
    ],
)
def test_an_addition_is_judged_by_what_it_meets(rule: str, wrong: Any, right: Any) -> None:
    assert len(broken(rule, environment(*wrong))) == 1 + len(broken(rule, environment(*right)))


@pytest.mark.parametrize(
    ("rule", "wrong", "right"),
    [
        ("the_autoscaler_may_start_all_nodes", caps("0:160"), caps("0:192")),
        ("single_values_meet_their_entry", airflow({"name": "TZ", "value": "UTC"}, *ENTRIES), airflow(*ENTRIES)),
    ],
)
def test_a_value_is_judged_by_what_it_is_for(rule: str, wrong: Environment, right: Environment) -> None:
    assert broken(rule, wrong) and not broken(rule, right)


def test_a_manifest_that_no_kustomization_lists_is_named(tmp_path: Path) -> None:
    (tmp_path / "kustomization.yaml").write_text("resources: [one.yaml]")
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text("kind: ConfigMap\n")

    (problem,) = settings.manifests_are_listed(environment(infra=tmp_path))

    assert problem.value == "two.yaml"


@pytest.mark.parametrize(
    ("service", "severity"), [("events.amazonaw.com", "breaks"), ("backup.amazonaws.com", "advice")]
)
def test_a_name_that_is_misspelled_breaks_and_an_unknown_one_is_advice(service: str, severity: str) -> None:
    statement = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": service}}
    role = Resource("role", "aws_iam_role", {"assume_role_policy": json.dumps({"Statement": [statement]})})

    findings = [finding for finding in find(environment(role)) if finding.rule.startswith("service_principals")]

    assert [finding.severity for finding in findings] == [severity]
