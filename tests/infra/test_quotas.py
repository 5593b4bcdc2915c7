"""What the doctor counts in our own plans: the quotas that an account of each environment needs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from pipelines.doctor import aws, google, quotas

KEYS = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}


@pytest.fixture
def read(planned: Callable[[str, str], Any], tmp_path: Path) -> Callable[[str], Any]:
    """`read(cloud)` is the doctor's reading of the plan of dev: variables and resources."""

    def read_dev(cloud: str) -> Any:
        (tmp_path / "plan.json").write_text(json.dumps(planned(cloud, "dev")))
        return quotas.read_plan(tmp_path / "plan.json")

    return read_dev


@pytest.mark.xdist_group("terraform-aws")
def test_dev_on_aws_needs_vcpus_of_its_pools_disks_and_an_address(read: Callable[[str], Any]) -> None:
    variables, resources = read("aws")

    with mock_aws():
        demands = aws.AwsQuotas(None, boto3.client("ec2", **KEYS)).demand(resources)

    assert variables["region"] == "us-east-1"
    amounts = {key.name: demand.amount for key, demand in demands.items()}
    # 6 general nodes of 4 vCPUs, 2 spot and 1 on-demand GPU nodes of 8
    disks = (6 * 100 + 3 * 200) / 1024
    assert amounts == pytest.approx(
        {"L-1216C47A": 24, "L-3819A6DF": 16, "L-DB2E81BA": 8, "L-7A658B76": disks, "L-0263D0A3": 1}
    )


@pytest.mark.xdist_group("terraform-gcp")
def test_dev_on_google_cloud_needs_gpus_cpus_disks_and_an_address(read: Callable[[str], Any]) -> None:
    variables, resources = read("gcp")

    demands = google.GoogleQuotas(variables["project_id"], variables["region"], str).demand(resources)

    assert variables["project_id"] == "example-nightshift-dev"
    metrics = {key.name for key in demands}
    assert metrics >= {"GPUS_ALL_REGIONS", "CPUS", "SSD_TOTAL_GB", "IN_USE_ADDRESSES"}
    assert any(metric.startswith("PREEMPTIBLE_NVIDIA_") for metric in metrics)
