"""The objects of a deployment: pods of an engine, their weights, the pool and the route, scaling and monitoring."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from nightshift_perf.planning.memory import GIB
from nightshift_perf.planning.serving.deployment.engines import CONFIG, PORT, WEIGHTS, Engine
from nightshift_perf.planning.serving.fleet import FleetPlan

Json = dict[str, Any]
NAMESPACE, SECRET, GATEWAY = "nightshift", "nightshift-serving", "inference-gateway"
PROMETHEUS = "http://kube-prometheus-stack-prometheus.monitoring:9090"
PRIORITY = "nightshift-serving"
GPU = "nvidia.com/gpu"
USER = 10001
SAFE = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
CPUS = 2  # a process of an engine is given at least; there is one a GPU
MEMORY = 8  # GiB of the machine's memory a process of an engine takes at most
SHARED = 1  # GiB of shared memory for each, through which they exchange tensors
SCRATCH = 20  # GiB of compiled kernels
START_SECONDS, DRAIN_SECONDS, ROUTE_SECONDS = 1800, 120, 15


@dataclass(frozen=True)
class ServingDeployment:
    """What is deployed.

    Attributes:
        name: of the objects and of the model in requests.
        plan: the fleet.
        engine: the server.
    """

    name: str
    plan: FleetPlan
    engine: Engine

    @property
    def labels(self) -> dict[str, str]:
        """By which the objects find the pods."""
        return {"app": self.name}

    @property
    def pods(self) -> str:
        """Regular expression of the names of its pods."""
        return f"{self.name}-[0-9a-z]+-[0-9a-z]+"

    @cached_property
    def selector(self) -> str:
        """Of its series in Prometheus."""
        return f'namespace="{NAMESPACE}", pod=~"{self.pods}"'

    @property
    def replica_usd(self) -> float:
        """US dollars per hour of a replica, on machines that are full."""
        per_machine = self.plan.machine.gpus // self.plan.replica.tensor
        return self.plan.usd_per_machine / per_machine

    @property
    def most(self) -> int:
        """Replicas at most: one more than the rate takes, for one that fails."""
        return self.plan.replicas + 1

    @property
    def quota(self) -> dict[str, int]:
        """What the most replicas request: CPUs, memory in GiB, GPUs."""
        tensor = self.plan.replica.tensor
        one = {"cpu": CPUS * tensor, "memory": (MEMORY + SHARED) * tensor, "gpu": tensor}
        return {name: self.most * amount for name, amount in one.items()}

    @property
    def queued(self) -> int:
        """Requests that wait at a replica, in the mean, at the highest rate that keeps the promise."""
        return max(1, math.ceil(self.plan.point.waiting))


def make_engine(deployment: ServingDeployment) -> list[Json]:
    """Return the pods, without a number of replicas, which is KEDA's, and how many of them may be evicted."""
    spec = {
        "selector": {"matchLabels": deployment.labels},
        # a new version takes the GPUs of an old pod, as there may be no others
        "strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
        "progressDeadlineSeconds": START_SECONDS + 600,
        "template": {"metadata": {"labels": deployment.labels}, "spec": _make_pod(deployment)},
    }
    budget = {"maxUnavailable": 1, "selector": {"matchLabels": deployment.labels}}
    return [
        _make(deployment, "apps/v1", "Deployment", spec),
        _make(deployment, "policy/v1", "PodDisruptionBudget", budget),
    ]


def make_weights(deployment: ServingDeployment) -> list[Json]:
    """Return the claim that all pods read the weights from."""
    whole = deployment.plan.replica.weights * deployment.plan.replica.tensor
    size = f"{math.ceil(1.1 * whole / GIB)}Gi"
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": size}}}
    return [_make(deployment, "v1", "PersistentVolumeClaim", spec, f"{deployment.name}-weights")]


def make_routing(deployment: ServingDeployment) -> list[Json]:
    """Return the pool, the route to it, and who may call the pods; they call nobody."""
    pool = {
        "selector": {"matchLabels": deployment.labels},
        "targetPorts": [{"number": PORT}],
        # any pod, where no picker is installed
        "endpointPickerRef": {
            "name": f"{deployment.name}-epp",
            "port": {"number": 9002},
            "failureMode": "FailOpen",
        },
    }
    backend = {"group": "inference.networking.k8s.io", "kind": "InferencePool", "name": deployment.name}
    rule = {
        "matches": [{"path": {"type": "PathPrefix", "value": "/v1"}}],
        "backendRefs": [backend],
        # a stream ends when its last token is there
        "timeouts": {"request": "0s", "backendRequest": "0s"},
    }
    gateway = {"gateway.networking.k8s.io/gateway-name": GATEWAY}
    callers = [
        {"namespaceSelector": {}, "podSelector": {"matchLabels": gateway}},
        {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}},
    ]
    policy = {
        "podSelector": {"matchLabels": deployment.labels},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": callers, "ports": [{"protocol": "TCP", "port": PORT}]}],
        "egress": [],
    }
    route = {"parentRefs": [{"name": GATEWAY}], "rules": [rule]}
    return [
        _make(deployment, "inference.networking.k8s.io/v1", "InferencePool", pool),
        _make(deployment, "gateway.networking.k8s.io/v1", "HTTPRoute", route),
        _make(deployment, "networking.k8s.io/v1", "NetworkPolicy", policy),
    ]


def make_scaling(deployment: ServingDeployment) -> list[Json]:
    """Return how many replicas there are, by the requests that wait and by those in flight.

    Waiting requests add replicas. Those in flight keep them while they are busy and nothing waits.
    """
    metrics, plan = deployment.engine.metrics, deployment.plan
    waiting = f"sum({metrics.waiting}{{{deployment.selector}}})"
    in_flight = f"{waiting} + sum({metrics.running}{{{deployment.selector}}})"
    spec = {
        "scaleTargetRef": {"name": deployment.name},
        "minReplicaCount": min(2, plan.replicas),
        "maxReplicaCount": deployment.most,
        "pollingInterval": 15,
        "fallback": {"failureThreshold": 4, "replicas": plan.replicas},
        # loading the weights takes minutes
        "advanced": {"horizontalPodAutoscalerConfig": {"behavior": {"scaleDown": {"stabilizationWindowSeconds": 600}}}},
        "triggers": [
            _make_trigger(waiting, deployment.queued),
            _make_trigger(in_flight, plan.point.concurrency),
        ],
    }
    return [_make(deployment, "keda.sh/v1alpha1", "ScaledObject", spec)]


def make_monitoring(deployment: ServingDeployment) -> list[Json]:
    """Return what Prometheus reads."""
    endpoint = {"portNumber": PORT, "path": deployment.engine.metrics.path, "interval": "15s"}
    spec = {"selector": {"matchLabels": deployment.labels}, "podMetricsEndpoints": [endpoint]}
    return [_make(deployment, "monitoring.coreos.com/v1", "PodMonitor", spec)]


def _make_pod(deployment: ServingDeployment) -> Json:
    tensor = deployment.plan.replica.tensor
    volumes: list[Json] = [
        {"name": "weights", "persistentVolumeClaim": {"claimName": f"{deployment.name}-weights", "readOnly": True}},
        {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": f"{SHARED * tensor}Gi"}},
        {"name": "scratch", "emptyDir": {"sizeLimit": f"{SCRATCH}Gi"}},
    ]
    if deployment.engine.config(deployment.plan):
        volumes.append({"name": "config", "configMap": {"name": f"{deployment.name}-engine"}})
    return {
        "automountServiceAccountToken": False,
        "priorityClassName": PRIORITY,
        "nodeSelector": {"node.kubernetes.io/instance-type": deployment.plan.machine.name},
        "tolerations": [{"key": GPU, "operator": "Exists", "effect": "NoSchedule"}],
        "terminationGracePeriodSeconds": DRAIN_SECONDS + ROUTE_SECONDS,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_make_container(deployment)],
        "volumes": volumes,
    }


def _make_container(deployment: ServingDeployment) -> Json:
    engine, mounts = deployment.engine, {"weights": WEIGHTS, "shared-memory": "/dev/shm", "scratch": "/tmp"}  # noqa: S108
    if engine.config(deployment.plan):
        mounts["config"] = CONFIG.rpartition("/")[0]
    return {
        "name": "engine",
        "image": engine.image,
        "command": engine.command(deployment.name, deployment.plan),
        "env": _list_variables(engine),
        "ports": [{"name": "http", "containerPort": PORT}],
        "startupProbe": _probe(START_SECONDS // 10),
        "readinessProbe": _probe(3),
        "livenessProbe": _probe(6),
        # the route has to know that the pod ends before it does
        "lifecycle": {"preStop": {"sleep": {"seconds": ROUTE_SECONDS}}},
        "resources": _make_resources(deployment.plan),
        "securityContext": SAFE,
        "volumeMounts": [
            {"name": name, "mountPath": path} | ({"readOnly": True} if name in ("weights", "config") else {})
            for name, path in mounts.items()
        ],
    }


def _list_variables(engine: Engine) -> list[Json]:
    # no user of that number is in the image, and nothing is fetched
    variables: list[Json] = [
        {"name": "HOME", "value": "/tmp"},  # noqa: S108 - of the pod
        {"name": "USER", "value": "engine"},
        {"name": "HF_HUB_OFFLINE", "value": "1"},
    ]
    if engine.token:
        secret = {"secretKeyRef": {"name": SECRET, "key": "token"}}
        variables.append({"name": engine.token, "valueFrom": secret})
    return variables


def _make_resources(plan: FleetPlan) -> Json:
    tensor = plan.replica.tensor
    memory = f"{(MEMORY + SHARED) * tensor}Gi"
    cpus = max(1, plan.machine.vcpus // plan.machine.gpus) * tensor
    return {
        "requests": {"cpu": str(min(cpus, CPUS * tensor)), "memory": memory},
        "limits": {"cpu": str(cpus), "memory": memory, GPU: str(tensor)},
    }


def _probe(failures: int) -> Json:
    return {
        "httpGet": {"path": "/health", "port": "http"},
        "periodSeconds": 10,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }


def _make_trigger(query: str, threshold: int) -> Json:
    metadata = {"serverAddress": PROMETHEUS, "query": query, "threshold": str(threshold)}
    return {"type": "prometheus", "metadata": metadata}


def _make(deployment: ServingDeployment, version: str, kind: str, spec: Json, name: str = "") -> Json:
    meta = {"name": name or deployment.name, "labels": {"app.kubernetes.io/part-of": "nightshift"}}
    return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec}
