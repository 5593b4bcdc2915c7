"""What only AWS's configuration has to show."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.terraform import INFRA
from pipelines.environments import AWS, Role
from tests.infra.aws import checks
from tests.infra.plans import resources

pytestmark = pytest.mark.xdist_group("terraform-aws")
KARPENTER = INFRA / "cluster" / "karpenter"


def manifests(kind: str) -> list[dict[str, Any]]:
    values = [value for path in KARPENTER.glob("*.yaml") for value in yaml.safe_load_all(path.read_text())]
    return [value for value in values if value["kind"] == kind]


def test_no_role_may_do_what_parliament_objects_to(applied: Callable) -> None:
    checks.judge(applied("aws"))


def test_no_role_may_do_everything(applied: Callable) -> None:
    for address, text in checks.policies(applied("aws")):
        assert '"Action":"*"' not in text, address
        assert ':*"' not in text.replace("log-group:flows:*", "").replace("autoScalingGroup:*", ""), address


def test_an_apply_leaves_the_autoscalers_nodes_alone(with_terraform: None) -> None:
    checks.autoscaler(INFRA)


def test_each_component_has_an_account_and_a_role_of_its_own(planned: Callable) -> None:
    found = resources(planned("aws", "dev"), "aws_eks_pod_identity_association")
    accounts = {(one.values["namespace"], one.values["service_account"]) for one in found}

    assert len(accounts) == len(found)
    assert accounts >= {("kubeflow", "nightshift"), ("nightshift", "mlflow"), ("kube-system", "karpenter")}


def test_the_steps_account_is_the_one_kubernetes_knows(planned: Callable) -> None:
    overlay = yaml.safe_load((INFRA / "kubernetes" / "aws" / "kustomization.yaml").read_text())
    found = resources(planned("aws", "dev"), "aws_eks_pod_identity_association")

    assert (overlay["namespace"], "nightshift") in {
        (one.values["namespace"], one.values["service_account"]) for one in found
    }


def test_karpenters_nodes_are_what_the_pipelines_ask_for() -> None:
    tolerated = {(toleration.key, toleration.value) for toleration in AWS.placements[Role.GPU].tolerations}
    for pool in manifests("NodePool"):
        template = pool["spec"]["template"]
        taints = {(taint["key"], taint["value"]) for taint in template["spec"]["taints"]}
        assert template["metadata"]["labels"] == dict(AWS.placements[Role.GPU].nodes)
        assert taints <= tolerated
        assert all(taint["effect"] == "NoSchedule" for taint in template["spec"]["taints"])


def test_karpenter_ends_only_nodes_on_which_nothing_runs() -> None:
    for pool in manifests("NodePool"):
        disruption = pool["spec"]["disruption"]
        assert disruption["consolidationPolicy"] == "WhenEmpty"
        assert pool["spec"]["template"]["spec"]["expireAfter"] == "Never"
        assert {"nodes": "0", "reasons": ["Drifted", "Underutilized"]} in disruption["budgets"]
        assert int(pool["spec"]["limits"]["nvidia.com/gpu"]) > 0


def test_karpenter_falls_back_from_spot_to_on_demand() -> None:
    capacity = {
        requirement["values"][0]: pool["spec"]["weight"]
        for pool in manifests("NodePool")
        for requirement in pool["spec"]["template"]["spec"]["requirements"]
        if requirement["key"] == "karpenter.sh/capacity-type"
    }

    assert capacity["spot"] > capacity["on-demand"]


def test_karpenters_nodes_are_as_closed_as_the_others() -> None:
    (nodes,) = (one["spec"] for one in manifests("EC2NodeClass"))

    assert nodes["metadataOptions"] == {"httpTokens": "required", "httpPutResponseHopLimit": 1}
    assert [disk["ebs"]["encrypted"] for disk in nodes["blockDeviceMappings"]] == [True]
    assert nodes["instanceStorePolicy"] == "RAID0"


@pytest.mark.parametrize("environment", ["dev", "prod"])
def test_the_autoscaler_prefers_spot_and_knows_it_by_the_pools_name(environment: str, planned: Callable) -> None:
    values = yaml.safe_load((INFRA / "cluster" / "values" / "cluster-autoscaler.yaml").read_text())
    *_, (first,) = (patterns for _, patterns in sorted(values["expanderPriorities"].items()))

    assert values["extraArgs"]["expander"].startswith("priority")
    for group in resources(planned("aws", environment), "aws_eks_node_group"):
        name, spot = f"eks-{group.values['node_group_name']}-0", group.values["capacity_type"] == "SPOT"
        assert bool(re.fullmatch(first, name)) == spot, name


@pytest.mark.parametrize("environment", ["dev", "prod"])
def test_karpenter_finds_the_subnets_by_their_tag(environment: str, planned: Callable) -> None:
    (nodes,) = (one["spec"] for one in manifests("EC2NodeClass"))
    wanted = nodes["subnetSelectorTerms"][0]["tags"]["karpenter.sh/discovery"].replace("-dev", f"-{environment}")
    private = [one for one in resources(planned("aws", environment), "aws_subnet") if "private" in one.address]

    assert {one.values["tags"]["karpenter.sh/discovery"] for one in private} == {wanted}


def test_the_state_is_locked_and_encrypted() -> None:
    text = (INFRA / "aws" / "versions.tf").read_text()

    assert 'backend "s3"' in text
    assert "use_lockfile = true" in text
    assert "encrypt      = true" in text


def test_nothing_of_a_state_is_left_in_the_repository() -> None:
    assert [path for path in Path(INFRA).rglob("*") if path.name.startswith((".terraform", "terraform.tfstate"))] == []
