"""The policies: from one replica's capacity, and accepted by what the platforms publish of themselves."""

import math

import botocore.session
import pytest
from botocore.validate import validate_parameters

from components.loadtest.scaling import Replica, policies

REPLICA = Replica("fraud", capacity=1000, utilization=0.7, latency=0.002, cpus=1.2, peak=5000)


def document(platform: str, replica: Replica = REPLICA):
    (found,) = [each for each in policies(replica) if platform in each.platform]
    return found.document


def test_every_platform_adds_replicas_at_the_same_share_of_the_capacity_and_has_enough_for_the_peak() -> None:
    scaled, knative = document("KEDA")["spec"], document("Knative")["spec"]["predictor"]
    tracking = document("SageMaker")["PutScalingPolicy"]["TargetTrackingScalingPolicyConfiguration"]
    assert scaled["triggers"][0]["metadata"]["threshold"] == "700"
    assert knative["scaleTarget"] == 700
    assert tracking["TargetValue"] == 700 * 60  # SageMaker counts by the minute
    most = math.ceil(5000 / 700)
    assert scaled["maxReplicaCount"] == knative["maxReplicas"] == most
    assert document("SageMaker")["RegisterScalableTarget"]["MaxCapacity"] == most
    assert document("Vertex")["dedicatedResources"]["maxReplicaCount"] == most
    assert document("Cloud Run")["template"]["scaling"]["maxInstanceCount"] == most


def test_a_replica_may_always_go_away() -> None:
    assert document("KEDA", Replica("fraud", 1000, 0.7, 0.002, 1.2, peak=1))["spec"]["maxReplicaCount"] == 2


def test_a_policy_scales_to_zero_where_it_says_so() -> None:
    lowest = {
        "KEDA": document("KEDA")["spec"]["minReplicaCount"],
        "Knative": document("Knative")["spec"]["predictor"]["minReplicas"],
        "SageMaker": document("SageMaker")["RegisterScalableTarget"]["MinCapacity"],
        "Vertex": document("Vertex")["dedicatedResources"]["minReplicaCount"],
        "Cloud Run": document("Cloud Run")["template"]["scaling"]["minInstanceCount"],
    }
    assert lowest == {"KEDA": 1, "Knative": 0, "SageMaker": 1, "Vertex": 1, "Cloud Run": 0}
    said = {each.platform: each.scales_to_zero for each in policies(REPLICA)}
    assert list(said.values()) == [not least for least in lowest.values()]


@pytest.mark.parametrize(("latency", "concurrency"), [(0.0001, 1), (0.01, 7), (100.0, 1000)])
def test_an_instance_of_cloud_run_gets_as_many_requests_as_are_on_their_way(latency, concurrency) -> None:
    replica = Replica("fraud", 1000, 0.7, latency, 1.2, 5000)
    assert document("Cloud Run", replica)["template"]["maxInstanceRequestConcurrency"] == concurrency


@pytest.mark.parametrize(("cpus", "percent"), [(1.2, 42), (0.001, 1), (50, 100)])
def test_vertex_looks_at_the_share_of_the_machines_cpus_that_a_busy_replica_takes(cpus, percent) -> None:
    found = document("Vertex", Replica("fraud", 1000, 0.7, 0.002, cpus, 5000))["dedicatedResources"]
    assert found["autoscalingMetricSpecs"][0]["target"] == percent


def test_the_requests_for_sagemaker_are_those_that_botocore_accepts() -> None:
    service = botocore.session.get_session().get_service_model("application-autoscaling")
    for operation, parameters in document("SageMaker").items():
        validate_parameters(parameters, service.operation_model(operation).input_shape)
