"""What only AWS's configuration has to show."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from infra.cloud.answers import GpuChoices, Provisioning
from infra.terraform import INFRA
from pipelines.environments import AWS, SERVICE_ACCOUNT, Role
from tests.infra import kustomize, rendered
from tests.infra.aws import checks
from tests.infra.edges import needs
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


def test_whoever_reads_the_bucket_may_ask_for_what_is_not_there(applied: Callable) -> None:
    """S3 answers 404 to those who may list the bucket, whatever they ask for, and 403 to others."""
    listing = {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": checks.ARNS["aws_s3_bucket"]}
    readers = {address: text for address, text in checks.policies(applied("aws")) if ".pods[" in address}

    assert readers
    assert [address for address, text in readers.items() if listing not in json.loads(text)["Statement"]] == []


def test_a_session_leads_to_the_api_and_nowhere_else(applied: Callable) -> None:
    (document,), (cluster,) = (resources(applied("aws"), kind) for kind in ("aws_ssm_document", "aws_eks_cluster"))
    session = json.loads(document.values["content"])

    assert document.values["document_type"] == "Session" and session["sessionType"] == "Port"
    assert list(session["parameters"]) == ["localPortNumber"]
    assert session["properties"]["host"] == cluster.values["endpoint"].removeprefix("https://")
    assert session["properties"]["portNumber"] == "443"
    allowed = dict(checks.policies(applied("aws")))["module.cluster.aws_iam_policy.api"]
    started = [rule for rule in json.loads(allowed)["Statement"] if rule["Action"] == "ssm:StartSession"]
    assert [rule["Resource"].rpartition(":")[2] for rule in started] == [
        "instance/*",
        f"document/{document.values['name']}",
    ]
    assert started[0]["Condition"]["BoolIfExists"] == {"ssm:SessionDocumentAccessCheck": "true"}


def test_each_component_has_an_account_and_a_role_of_its_own(planned: Callable) -> None:
    associations = resources(planned("aws", "dev"), "aws_eks_pod_identity_association")
    accounts = {(one.values["namespace"], one.values["service_account"]) for one in associations}

    assert len(accounts) == len(associations)
    assert accounts >= {("kubeflow", "nightshift"), ("nightshift", "mlflow"), ("kube-system", "karpenter")}


def test_the_steps_accounts_are_those_kubernetes_knows(planned: Callable) -> None:
    overlay = yaml.safe_load((INFRA / "kubernetes" / "aws" / "kustomization.yaml").read_text())
    associations = resources(planned("aws", "dev"), "aws_eks_pod_identity_association")

    assert {(overlay["namespace"], name) for name in (SERVICE_ACCOUNT, *needs.accounts(AWS))} <= {
        (one.values["namespace"], one.values["service_account"]) for one in associations
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
        name, spot = f"eks-{group.values['node_group_name_prefix']}0-0", group.values["capacity_type"] == "SPOT"
        assert bool(re.fullmatch(first, name)) == spot, name


@pytest.mark.parametrize("environment", ["dev", "prod"])
def test_karpenters_nodes_have_the_role_the_subnets_and_the_groups_of_their_cluster(
    environment: str, planned: Callable, tmp_path: Path
) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not on PATH: nothing was built")
    choices = GpuChoices(provisioning=Provisioning.KARPENTER)
    rendered.lay_out(rendered.read(f"aws-{environment}").model_copy(update={"gpu": choices}), tmp_path)
    objects = kustomize.built(tmp_path / "karpenter")
    (nodes,) = (manifest["spec"] for manifest in objects if manifest["kind"] == "EC2NodeClass")
    plan = planned("aws", environment)
    (cluster,) = resources(plan, "aws_eks_cluster")
    private = [one for one in resources(plan, "aws_subnet") if "private" in one.address]
    roles = {one.values["name"] for one in resources(plan, "aws_iam_role")}

    assert [one.values["tags"]["karpenter.sh/discovery"] for one in private] == [cluster.values["name"]] * len(private)
    assert nodes["subnetSelectorTerms"] == [{"tags": {"karpenter.sh/discovery": cluster.values["name"]}}]
    assert nodes["securityGroupSelectorTerms"] == [
        {"tags": {f"kubernetes.io/cluster/{cluster.values['name']}": "owned"}}
    ]
    assert nodes["role"] == f"{cluster.values['name']}-nodes"
    assert nodes["role"] in roles
    assert nodes["tags"] == {"project": "nightshift", "environment": environment}


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder with an aws and a kubectl that write down what they are asked; `node` there is what EC2 answers."""
    answers = {
        "aws": "case $2 in describe-cluster) echo https://ID.eks.amazonaws.com ;; describe-instances) cat node ;; esac"
    }
    answers["kubectl"] = "case $2 in view) printf arn ;; esac"
    for name, answer in answers.items():
        (tmp_path / name).write_text(f'#!/bin/sh\ncd {tmp_path} && echo {name} "$@" >> asked\n{answer}\n')
        (tmp_path / name).chmod(0o755)
    return tmp_path


def connect(tools: Path, node: str, *port: str) -> subprocess.CompletedProcess[str]:
    (tools / "node").write_text(f"{node}\n")
    command = [INFRA / "aws" / "connect.sh", "nightshift-dev", *port]
    return subprocess.run(command, env={"PATH": f"{tools}:{os.environ['PATH']}"}, capture_output=True, text=True)


def test_the_api_is_reached_through_a_node_by_the_document_and_the_tag_that_terraform_gives(
    tools: Path, applied: Callable
) -> None:
    assert connect(tools, "i-0").returncode == 0

    commands = (tools / "asked").read_text()
    (document,) = resources(applied("aws"), "aws_ssm_document")
    assert (
        f"start-session --target i-0 --document-name {document.values['name']} --parameters localPortNumber=8443"
        in commands
    )
    assert "set-cluster arn --server https://localhost:8443 --tls-server-name ID.eks.amazonaws.com" in commands
    policy = dict(checks.policies(applied("aws")))["module.cluster.aws_iam_policy.api"]
    (tag,) = re.findall(r"Name=tag:Name,Values=(\S+)", commands)
    assert f'"ssm:resourceTag/Name":"{tag}"' in policy
    templates = resources(applied("aws"), "aws_launch_template")
    assert any(tags["tags"]["Name"] == tag for template in templates for tags in template.values["tag_specifications"])


def test_the_api_is_reached_at_the_port_that_is_named_through_a_node_that_runs(tools: Path) -> None:
    assert connect(tools, "i-0", "9443").returncode == 0

    assert (tools / "asked").read_text().splitlines() == [
        "aws eks describe-cluster --name nightshift-dev --query cluster.endpoint --output text",
        "aws ec2 describe-instances --filters Name=tag:Name,Values=nightshift-dev-general"
        " Name=instance-state-name,Values=running --query Reservations[0].Instances[0].InstanceId --output text",
        "aws eks update-kubeconfig --name nightshift-dev --alias nightshift-dev",
        "kubectl config view --minify --output jsonpath={.contexts[0].context.cluster}",
        "kubectl config set-cluster arn --server https://localhost:9443 --tls-server-name ID.eks.amazonaws.com",
        "aws ssm start-session --target i-0 --document-name nightshift-dev-api --parameters localPortNumber=9443",
    ]


def test_a_cluster_without_a_node_is_not_reached(tools: Path) -> None:
    refused = connect(tools, "None")

    assert refused.returncode == 1 and "no node named nightshift-dev-general is running" in refused.stderr


def test_the_state_is_locked_and_encrypted() -> None:
    text = (INFRA / "aws" / "versions.tf").read_text()

    assert 'backend "s3"' in text
    assert "use_lockfile = true" in text
    assert "encrypt      = true" in text


def test_nothing_of_a_state_is_left_in_the_repository() -> None:
    assert [path for path in Path(INFRA).rglob("*") if path.name.startswith((".terraform", "terraform.tfstate"))] == []
