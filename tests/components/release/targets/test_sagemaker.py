"""What is peculiar to SageMaker; the rest is in `test_targets.py`."""

import dataclasses
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from botocore.stub import Stubber

from components.release.targets import rollout
from components.release.targets.sagemaker import AMI
from components.release.verdicts import RequestFigures
from nightshift.runtime.errors import UserError
from tests.components.release.targets.aws import SETTINGS, Aws, platform
from tests.components.release.targets.versions import Fleet


@pytest.fixture
def account(fleet: Fleet, tmp_path: Path) -> Iterator[Aws]:
    with platform(fleet, tmp_path) as account:
        yield account


def test_a_model_of_our_name_with_other_content_is_refused(account: Aws, fleet: Fleet) -> None:
    rollout(account.target(), fleet.split(v1=1))
    (model,) = account.backend._models.values()
    model.primary_container["Image"] = "another"
    account.backend.endpoints.clear()
    account.backend.endpoint_configs.clear()
    with pytest.raises(UserError, match=f"model '{model.model_name}' exists with other content"):
        account.target().apply(fleet.split(v1=1))
    assert account.state()["endpoints"] == {}


def test_what_a_variants_requests_were_like_is_what_cloudwatch_says_of_them(account: Aws, fleet: Fleet) -> None:
    since, until = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, 2, tzinfo=UTC)
    datapoints = {
        "Invocations": [{"Sum": 900.0}, {"Sum": 100.0}],
        "Invocation5XXErrors": [{"Sum": 20.0}],
        "ModelLatency": [{"ExtendedStatistics": {"p99": value}} for value in (4000.0, 61000.0)],
    }
    with Stubber(account.cloudwatch) as cloudwatch:
        for name, points in datapoints.items():
            which = {"ExtendedStatistics": ["p99"]} if name == "ModelLatency" else {"Statistics": ["Sum"]}
            request = {
                "Namespace": "AWS/SageMaker",
                "MetricName": name,
                "Dimensions": [
                    {"Name": "EndpointName", "Value": "fraud"}, {"Name": "VariantName", "Value": "v2"},
                ],
                "StartTime": since, "EndTime": until, "Period": 3600,
            }  # fmt: skip
            cloudwatch.add_response("get_metric_statistics", {"Datapoints": points}, request | which)
        assert account.target().measure(fleet.split(v2=0.05)[0], since, until) == RequestFigures(1000, 20, 61.0)


def test_an_instance_with_a_gpu_has_the_server_use_it(account: Aws, fleet: Fleet) -> None:
    rollout(account.target(**account.gpu), fleet.split(v1=1))
    (config,) = account.state()["configs"]
    (variant,) = account.client.describe_endpoint_config(EndpointConfigName=config)["ProductionVariants"]
    assert (variant["InstanceType"], variant["InferenceAmiVersion"]) == ("ml.g4dn.xlarge", AMI)
    model = account.client.describe_model(ModelName=variant["ModelName"])
    assert model["PrimaryContainer"]["Environment"] == {"NIGHTSHIFT_DEVICE": "cuda"}


def test_the_families_with_gpus_are_those_that_sagemaker_has(account: Aws) -> None:
    shapes = account.client.meta.service_model
    families = {instance.split(".")[1] for instance in shapes.shape_for("ProductionVariantInstanceType").enum}
    with_gpus = {family for family in families if dataclasses.replace(SETTINGS, instance=f"ml.{family}.xlarge").has_gpu}
    assert {"g4dn", "g5", "g6", "p4d", "p5"} <= with_gpus
    assert not {"m5", "c7g", "r6g", "t2", "inf2", "trn1"} & with_gpus
    assert AMI in shapes.shape_for("ProductionVariantInferenceAmiVersion").enum
