"""From what one replica withstands to how platforms add and remove replicas, in each platform's own terms."""

from dataclasses import dataclass
from math import ceil
from typing import Any

from nightshift.contracts.loadtest import Policy

WINDOW = 300  # seconds without need for a replica before it goes
PROMETHEUS = "http://kube-prometheus-stack-prometheus.monitoring:9090"  # the chart's, as `infra/` installs it
VERTEX_MACHINE, VERTEX_VCPUS = "n1-standard-2", 2
CONCURRENCY = 1000  # Cloud Run's highest


@dataclass(frozen=True)
class Replica:
    """What one replica withstands.

    Attributes:
        name: of the served model.
        capacity: requests a second within the limit.
        utilization: share of the capacity at which another replica is added.
        latency: of a request at this load, in seconds.
        cpus: CPUs that are busy at the capacity.
        peak: requests a second that all replicas have to take.
    """

    name: str
    capacity: float
    utilization: float
    latency: float
    cpus: float
    peak: float

    @property
    def target(self) -> float:
        """Requests a second of a replica, above which another one is added."""
        return self.capacity * self.utilization

    @property
    def most(self) -> int:
        """Replicas at the peak; two at least, so that one can go away."""
        return max(2, ceil(self.peak / self.target))


def policies(replica: Replica) -> list[Policy]:
    """Return the policy of every platform."""
    return [_keda(replica), _knative(replica), _sagemaker(replica), _vertex(replica), _cloud_run(replica)]


def _keda(replica: Replica) -> Policy:
    """https://keda.sh/docs/latest/reference/scaledobject-spec, https://keda.sh/docs/latest/scalers/prometheus."""
    query = f'sum(rate(nightshift_endpoint_requests_total{{use_case="{replica.name}"}}[1m]))'
    trigger = {"serverAddress": PROMETHEUS, "query": query, "threshold": f"{replica.target:.0f}"}
    return Policy(
        platform="KServe in standard mode, KEDA",
        scales_to_zero=False,
        note="The InferenceService needs the annotation serving.kserve.io/autoscalerClass: external. Without a replica "
        "there is no metric that could ask for one, so one stays.",
        document={
            "apiVersion": "keda.sh/v1alpha1",
            "kind": "ScaledObject",
            "metadata": {"name": f"{replica.name}-predictor"},
            "spec": {
                "scaleTargetRef": {"name": f"{replica.name}-predictor"},
                "minReplicaCount": 1,
                "maxReplicaCount": replica.most,
                "cooldownPeriod": WINDOW,
                "triggers": [{"type": "prometheus", "metadata": trigger}],
            },
        },
    )


def _knative(replica: Replica) -> Policy:
    """https://kserve.github.io/website/docs/model-serving/predictive-inference/autoscaling/kpa-autoscaler."""
    predictor = {"minReplicas": 0, "maxReplicas": replica.most, "scaleMetric": "rps"}
    return Policy(
        platform="KServe in Knative mode",
        scales_to_zero=True,
        note="The first request after a pause waits for a replica to start.",
        document={
            "apiVersion": "serving.kserve.io/v1beta1",
            "kind": "InferenceService",
            "metadata": {"name": replica.name, "annotations": {"serving.kserve.io/deploymentMode": "Knative"}},
            "spec": {"predictor": predictor | {"scaleTarget": max(1, round(replica.target))}},
        },
    )


def _sagemaker(replica: Replica) -> Policy:
    """https://docs.aws.amazon.com/sagemaker/latest/dg/endpoint-scaling-loadtest.html: invocations a minute."""
    variant: dict[str, Any] = {
        "ServiceNamespace": "sagemaker",
        "ResourceId": f"endpoint/{replica.name}/variant/live",
        "ScalableDimension": "sagemaker:variant:DesiredInstanceCount",
    }
    tracking = {
        "TargetValue": round(60 * replica.target, 1),
        "PredefinedMetricSpecification": {"PredefinedMetricType": "SageMakerVariantInvocationsPerInstance"},
        "ScaleInCooldown": WINDOW,
        "ScaleOutCooldown": 60,
    }
    return Policy(
        platform="SageMaker",
        scales_to_zero=False,
        note="Requests of Application Auto Scaling. A variant with instances of its own keeps one.",
        document={
            "RegisterScalableTarget": variant | {"MinCapacity": 1, "MaxCapacity": replica.most},
            "PutScalingPolicy": variant
            | {
                "PolicyName": f"{replica.name}-invocations",
                "PolicyType": "TargetTrackingScaling",
                "TargetTrackingScalingPolicyConfiguration": tracking,
            },
        },
    )


def _vertex(replica: Replica) -> Policy:
    """https://cloud.google.com/vertex-ai/docs/reference/rest/v1/DedicatedResources; the target is in percent."""
    busy = 100 * replica.utilization * replica.cpus / VERTEX_VCPUS
    metric = {"metricName": "aiplatform.googleapis.com/prediction/online/cpu/utilization"}
    return Policy(
        platform="Vertex AI",
        scales_to_zero=False,
        note=f"At its capacity a replica keeps {replica.cpus:.1f} CPUs busy, of {VERTEX_VCPUS} that the machine has.",
        document={
            "dedicatedResources": {
                "machineSpec": {"machineType": VERTEX_MACHINE},
                "minReplicaCount": 1,
                "maxReplicaCount": replica.most,
                "autoscalingMetricSpecs": [metric | {"target": min(max(round(busy), 1), 100)}],
            }
        },
    )


def _cloud_run(replica: Replica) -> Policy:
    """https://cloud.google.com/run/docs/reference/rest/v2/projects.locations.services; by Little's law."""
    at_once = replica.target * replica.latency
    return Policy(
        platform="Cloud Run",
        scales_to_zero=True,
        note="The first request after a pause waits for an instance to start.",
        document={
            "template": {
                "scaling": {"minInstanceCount": 0, "maxInstanceCount": replica.most},
                "maxInstanceRequestConcurrency": min(max(ceil(at_once), 1), CONCURRENCY),
            }
        },
    )
