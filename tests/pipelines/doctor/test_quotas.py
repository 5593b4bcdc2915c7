"""Quotas of a cloud account against what a plan's node pools can grow to."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from nightshift.cluster import MissingError
from nightshift.contracts.health import CheckStatus, HealthCheck
from nightshift.runtime.errors import UserError
from nightshift_testkit.servers import serving
from pipelines.doctor import aws, google, quotas, web

OK, FAILED, SKIPPED = CheckStatus.OK, CheckStatus.FAILED, CheckStatus.SKIPPED
KEYS = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}
# quotas of a new account: no GPU, 5 vCPUs
DEFAULTS = {
    "L-1216C47A": ("Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", 5),
    "L-DB2E81BA": ("Running On-Demand G and VT instances", 0),
    "L-3819A6DF": ("All G and VT Spot Instance Requests", 0),
    "L-0263D0A3": ("EC2-VPC Elastic IPs", 5),
    "L-7A658B76": ("Storage for General Purpose SSD (gp3) volumes, in TiB", 50),
}


class ServiceQuotas:
    """The client of Service Quotas, of which moto has VPC's only: defaults, and those that were raised."""

    def __init__(self, **raised: float) -> None:
        self.raised = {code.replace("_", "-"): value for code, value in raised.items()}

    def get_service_quota(self, **names: str) -> dict[str, Any]:
        return self._answer(names["QuotaCode"], self.raised.get(names["QuotaCode"]))

    def get_aws_default_service_quota(self, **names: str) -> dict[str, Any]:
        return self._answer(names["QuotaCode"], DEFAULTS.get(names["QuotaCode"], ("", None))[1])

    def _answer(self, code: str, value: float | None) -> dict[str, Any]:
        if value is None:
            answer = {"Error": {"Code": "NoSuchResourceException"}, "ResponseMetadata": {"HTTPStatusCode": 400}}
            raise ClientError(answer, "GetServiceQuota")  # type: ignore[arg-type]
        return {"Quota": {"QuotaName": DEFAULTS[code][0], "QuotaCode": code, "Value": value}}


def group(pool: str, types: list[str], market: str, size: int, disk: int) -> list[dict[str, Any]]:
    """Return a pool of a plan, as infra/aws plans it."""
    values = {"instance_types": types, "capacity_type": market, "scaling_config": [{"max_size": size}]}
    template = {"block_device_mappings": [{"ebs": [{"volume_type": "gp3", "volume_size": disk}]}]}
    return [
        {"type": "aws_eks_node_group", "address": f"module.{pool}.aws_eks_node_group.this", "values": values},
        {"type": "aws_launch_template", "address": f"module.{pool}.aws_launch_template.this", "values": template},
    ]


AWS_PLAN = [
    *group("general_pool", ["m7i.xlarge", "m6i.xlarge"], "ON_DEMAND", 6, 100),
    *group('gpu_pools["spot"]', ["g5.2xlarge", "g4dn.4xlarge"], "SPOT", 2, 200),
    *group('gpu_pools["on-demand"]', ["g5.2xlarge"], "ON_DEMAND", 1, 200),
    {"type": "aws_eip", "address": 'module.network.aws_eip.nat["us-east-1a"]', "values": {"domain": "vpc"}},
    {"type": "aws_s3_bucket", "address": "module.storage.aws_s3_bucket.this", "values": {}},
]


@pytest.fixture
def machines() -> Iterator[Any]:
    with mock_aws():
        yield boto3.client("ec2", **KEYS)


def by_name(checks: Iterator[HealthCheck]) -> dict[str, HealthCheck]:
    return {check.name: check for check in checks}


def test_a_new_account_of_aws_is_shown_which_quotas_to_ask_for_and_how(machines: Any) -> None:
    checks = by_name(quotas.check_quotas(aws.AwsQuotas(ServiceQuotas(), machines), AWS_PLAN))

    assert {name.removeprefix("quota "): check.status for name, check in checks.items()} == {
        DEFAULTS["L-1216C47A"][0]: FAILED,
        DEFAULTS["L-DB2E81BA"][0]: FAILED,
        DEFAULTS["L-3819A6DF"][0]: FAILED,
        DEFAULTS["L-0263D0A3"][0]: OK,
        DEFAULTS["L-7A658B76"][0]: OK,
    }
    spot = checks["quota All G and VT Spot Instance Requests"]
    # two nodes of the larger type
    assert (spot.seen, spot.allowed) == ("0 vCPUs", '32 vCPUs (gpu_pools["spot"] 32)')
    assert "request-service-quota-increase --service-code ec2 --quota-code L-3819A6DF --desired-value 32" in spot.fix


def test_an_account_whose_quotas_were_raised_has_room(machines: Any) -> None:
    raised = ServiceQuotas(L_1216C47A=24, L_DB2E81BA=8, L_3819A6DF=32)

    report = quotas.diagnose_quotas("aws", aws.AwsQuotas(raised, machines), AWS_PLAN)

    assert report.exit_code == 0 and len(report.checks) == 5


def test_a_quota_that_the_cloud_does_not_know_is_skipped_with_what_is_needed(machines: Any) -> None:
    plan = group("fabric", ["p4d.24xlarge"], "ON_DEMAND", 2, 500)

    checks = by_name(quotas.check_quotas(aws.AwsQuotas(ServiceQuotas(), machines), plan))

    assert checks["quota L-417A185B"].status == SKIPPED
    assert "192 vCPUs" in checks["quota L-417A185B"].seen


def test_a_role_without_the_right_is_told_which(machines: Any) -> None:
    class Refusing:
        def get_service_quota(self, **_: str) -> None:
            answer = {"Error": {"Code": "AccessDenied"}, "ResponseMetadata": {"HTTPStatusCode": 400}}
            raise ClientError(answer, "GetServiceQuota")  # type: ignore[arg-type]

        get_aws_default_service_quota = get_service_quota

    report = quotas.diagnose_quotas("aws", aws.AwsQuotas(Refusing(), machines), AWS_PLAN)

    assert report.exit_code == 2 and "servicequotas:Get*" in report.checks[0].seen


class Compute(ThreadingHTTPServer):
    """The Compute Engine API: quotas of a project and of its region."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        region = {"NVIDIA_L4_GPUS": 1, "PREEMPTIBLE_NVIDIA_A100_GPUS": 0, "CPUS": 24, "SSD_TOTAL_GB": 500}
        self.quotas = {"/projects/acme": {"GPUS_ALL_REGIONS": 1}, "/projects/acme/regions/europe-west4": region}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Compute

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        limits = self.server.quotas.get(self.path)
        allowed = self.headers["authorization"] == "Bearer token"
        entries = [{"metric": metric, "limit": limit, "usage": 0} for metric, limit in (limits or {}).items()]
        content = json.dumps({"quotas": entries}).encode()
        self.send_response(403 if not allowed else 404 if limits is None else 200)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@pytest.fixture
def compute() -> Iterator[Compute]:
    server = Compute()
    with serving(server):
        yield server


def pool(name: str, machine: str, size: int, accelerator: str = "", **capacity: bool) -> dict[str, Any]:
    """Return a pool of a plan, as infra/gcp plans it."""
    gpus = [{"type": accelerator, "count": 1}] if accelerator else []
    disk = {"disk_type": "pd-balanced", "disk_size_gb": 100}
    node = {"machine_type": machine, "guest_accelerator": gpus, **disk, **capacity}
    values = {"node_config": [node], "autoscaling": [{"total_max_node_count": size}]}
    return {"type": "google_container_node_pool", "address": name, "values": values}


GCP_PLAN = [
    pool("general", "e2-standard-8", 3),
    pool("l4", "g2-standard-12", 1, "nvidia-l4"),
    pool("a100", "a2-highgpu-1g", 2, "nvidia-tesla-a100", spot=True),
    {"type": "google_compute_router_nat", "address": "nat", "values": {}},
]


def connect(compute: Compute, project: str = "acme", login: str = "Bearer token") -> google.GoogleQuotas:
    return google.GoogleQuotas(project, "europe-west4", lambda url: web.fetch(url, login), compute.url)


def test_a_project_of_google_cloud_is_shown_which_quotas_to_ask_for(compute: Compute) -> None:
    checks = by_name(quotas.check_quotas(connect(compute), GCP_PLAN))

    assert {name.removeprefix("quota "): check.status for name, check in checks.items()} == {
        "CPUS in europe-west4": OK,
        "SSD_TOTAL_GB in europe-west4": FAILED,
        "NVIDIA_L4_GPUS in europe-west4": OK,
        "GPUS_ALL_REGIONS of the project": FAILED,
        "PREEMPTIBLE_NVIDIA_A100_GPUS in europe-west4": FAILED,
        "IN_USE_ADDRESSES": SKIPPED,
    }
    spot = checks["quota PREEMPTIBLE_NVIDIA_A100_GPUS in europe-west4"]
    assert "ask for 2 of PREEMPTIBLE_NVIDIA_A100_GPUS in europe-west4" in spot.fix
    assert checks["quota GPUS_ALL_REGIONS of the project"].allowed == "3 GPUs (l4 1, a100 2)"


def test_a_project_that_is_not_there_and_a_login_without_rights_are_named(compute: Compute) -> None:
    with pytest.raises(MissingError, match="projects/nobody"):
        list(quotas.check_quotas(connect(compute, project="nobody"), GCP_PLAN))
    with pytest.raises(UserError, match="answers 403"):
        list(quotas.check_quotas(connect(compute, login="Bearer other"), GCP_PLAN))


def test_a_plan_gives_its_variables_and_the_resources_of_all_modules(tmp_path: Path) -> None:
    inner = {"resources": [{"address": "a", "type": "t", "values": {}}, {"address": "b", "type": "t"}]}
    root = {"root_module": {"child_modules": [{"child_modules": [inner]}]}}
    plan = {"variables": {"region": {"value": "us-east-1"}}, "planned_values": root}
    (tmp_path / "plan.json").write_text(json.dumps(plan))

    variables, resources = quotas.read_plan(tmp_path / "plan.json")

    assert variables == {"region": "us-east-1"} and [resource["address"] for resource in resources] == ["a"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"variables": {}}'])
def test_a_file_that_is_no_plan_is_refused_with_the_command_that_writes_one(text: str, tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(text)

    with pytest.raises(UserError, match="terraform show -json"):
        quotas.read_plan(tmp_path / "plan.json")
