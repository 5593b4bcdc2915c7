"""Where a pipeline runs: where its state lies, and what each of its steps gets there.

The first is given when a run starts, the second is laid over a pipeline when it is read. Sites name images of an
example registry, and `NIGHTSHIFT_IMAGES` those that were pushed. The smallest clusters keep their state in a bucket,
which `NIGHTSHIFT_STATE` names. `docs/guides/integrations/kubeflow.md` says what each environment assumes; to change it,
change its site.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from nightshift.cluster import STEP, TRAINING, queue_labels
from nightshift.contracts.state import ROOTS, DeploymentTarget, State
from nightshift.costs.prices import MACHINE
from nightshift.runtime.errors import UserError, nearest
from nightshift.runtime.image import image
from nightshift.runtime.observers import RECEIVERS_OF_STEPS
from nightshift.runtime.telemetry import GATEWAY
from pipelines.images import EXAMPLE_REGISTRY, find_pushed_images
from pipelines.ir import Retry

# Kubeflow's API as the steps see it
KUBEFLOW_INSIDE = "http://ml-pipeline.kubeflow.svc.cluster.local:8888"
STATE = "NIGHTSHIFT_STATE"  # environment variable: URI below which the smallest clusters keep their state
LUSTRE = "/lustre"
SERVICE_ACCOUNT = "nightshift"  # account of steps whose placement has none of its own
GPU = "nvidia.com/gpu"
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - the mount itself
GRACE = "nightshift/grace-seconds"  # annotation of a pod; kfp-kubernetes 2.17 has no field for it
FOLLOWED_SECONDS = 24 * 3600  # a TrainJob with all its preemptions


@dataclass(frozen=True)
class Toleration:
    """A taint `key=value:NoSchedule` that a step may run in spite of."""

    key: str
    value: str


@dataclass(frozen=True)
class Volume:
    """A persistent volume claim and the path at which a step sees it."""

    claim: str
    path: str


@dataclass(frozen=True)
class Secret:
    """A Kubernetes secret.

    Attributes:
        name: of the secret, in the namespace of the steps.
        keys: key -> the environment variable that receives it.
        is_optional: whether a step starts without it too.
    """

    name: str
    keys: Mapping[str, str]
    is_optional: bool = False


@dataclass(frozen=True)
class Placement:
    """What one kind of step gets.

    Quantities are written as Kubernetes does; what is empty or 0 is not asked for.

    Attributes:
        image: reference of the container image.
        cpu_request: cores it is scheduled with.
        memory_request: memory it is scheduled with.
        memory_limit: memory above which it is killed; shared memory counts.
        cpu_limit: cores above which it is slowed down.
        gpus: NVIDIA GPUs.
        nodes: labels of the nodes it may run on.
        tolerations: taints it may run in spite of.
        retry: what happens when it fails, or loses its node.
        timeout: seconds after which its pod is ended.
        shared_memory: size of `/dev/shm`, through which torch's processes exchange tensors.
        volumes: what it mounts.
        secrets: what it gets by reference.
        labels: of its pod.
        environment: its environment variables.
        grace: seconds from SIGTERM to the end of its pod; Kubernetes' own are 30.
        account: service account of its pod, for what it asks of Kubernetes; empty when that is nothing, and
            `SERVICE_ACCOUNT` will do.
    """

    image: str
    cpu_request: str
    memory_request: str
    memory_limit: str
    cpu_limit: str = ""
    gpus: int = 0
    nodes: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    retry: Retry = field(default_factory=Retry)
    timeout: int = 0
    shared_memory: str = ""
    volumes: tuple[Volume, ...] = ()
    secrets: tuple[Secret, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    grace: int = 0
    account: str = ""


class Role(StrEnum):
    """What a component's steps need of their placement."""

    LIGHT = "light"  # a core and little memory
    GPU = "gpu"  # the device that `--device` names
    TRAINING = "training"  # the same, or, for a training on several nodes, what it takes to follow its TrainJob
    LAUNCHER = "launcher"  # what a light step needs, and Kubeflow's API
    REPORTING = "reporting"  # what a light step needs, and the URLs of those who are notified
    RELEASE = "release"  # what a light step needs, and the token of served models and the right to change them


# the URLs of those who are notified; docs/guides/monitoring.md says how the secret is made
RECEIVERS = Secret(
    "nightshift-notify",
    {
        "webhook": "NIGHTSHIFT_NOTIFY_WEBHOOK",
        "slack": "NIGHTSHIFT_NOTIFY_SLACK",
        "pagerduty": "NIGHTSHIFT_NOTIFY_PAGERDUTY",
        "email": "NIGHTSHIFT_NOTIFY_EMAIL",
    },
    is_optional=True,
)
# by component; all others are light
ROLES = {
    "features": Role.GPU,
    "launching": Role.LAUNCHER,
    "profiling": Role.GPU,
    "release": Role.RELEASE,
    "reporting": Role.REPORTING,
    "training": Role.TRAINING,
}


@dataclass(frozen=True)
class Site:
    """What is laid over the pipelines in an environment.

    Attributes:
        name: of the environment.
        placements: what a step of each role gets there.
        parameters: pipeline parameters that have a default there. The device is always among them on a cluster,
            since the image of the GPU steps fits one device only.
        has_kubeflow: whether Kubeflow's Pipelines and Trainer run there; the smallest clusters have Airflow alone.
        feature_shards: steps that compute features at the same time; 0 for the features step alone.
    """

    name: str
    placements: Mapping[Role, Placement]
    parameters: Mapping[str, Any] = field(default_factory=dict)
    has_kubeflow: bool = True
    feature_shards: int = 0

    def with_variables(self, **variables: str) -> Self:
        """Return the site with more environment variables for all steps."""
        placements = {
            role: replace(placement, environment={**placement.environment, **variables})
            for role, placement in self.placements.items()
        }
        return replace(self, placements=placements)

    def with_images(self, references: Mapping[str, str]) -> Self:
        """Return the site with other images: example -> the one in its place."""
        placements = {
            role: replace(placement, image=references.get(placement.image, placement.image))
            for role, placement in self.placements.items()
        }
        return replace(self, placements=placements)

    def with_bucket(self, uri: str) -> Self:
        """Return the site with its state below a URI instead of the example's; empty for what it is."""
        if not uri or "state" not in self.parameters:
            return self
        roots = {root: f"{uri}/{root}" for root in ROOTS if root != "registry"}
        return replace(self, parameters={**self.parameters, "state": self.parameters["state"] | roots})

    def with_trainjobs(self) -> Self:
        """Return the site for trainings on several nodes: their step is a light one, and follows a TrainJob."""
        light, training = self.placements[Role.LIGHT], self.placements[Role.TRAINING]
        follower = replace(
            light,
            retry=training.retry,
            timeout=FOLLOWED_SECONDS,
            environment=training.environment,  # what a node of the TrainJob is, by which costs are counted
            account="nightshift-training",
        )
        return replace(self, placements={**self.placements, Role.TRAINING: follower})


def local(workspace: Path, target: str = DeploymentTarget.LOCAL) -> State:
    """Return the state of one machine: everything below a folder."""
    root = workspace.resolve()
    return State.from_mapping({name: str(root / name) for name in ROOTS} | {"target": target})


def site(name: str) -> Site:
    """Return a site by its name, with the images that were pushed, the bucket that was made, and who observes steps.

    Raises:
        UserError: when there is none of that name, or an observer's URL holds a login.
    """
    if name not in SITES:
        raise UserError(f"environment {name!r} is none of: {', '.join(SITES)}{nearest(name, SITES)}")
    placed = SITES[name].with_images(find_pushed_images()).with_bucket(os.environ.get(STATE, ""))
    return placed if name == LOCAL.name else placed.with_variables(**_list_receivers())


def _list_receivers() -> dict[str, str]:
    """Return the variables that name receivers of lineage and spans, which a step on a cluster gets as it is placed."""
    variables = {name: os.environ[name] for name in RECEIVERS_OF_STEPS if os.environ.get(name)}
    for name, text in variables.items():
        if "@" in text:
            raise UserError(f"{name} holds a login, which everybody who sees a pod would read; give an address alone")
    return variables


def _cluster(name: str, machines: Mapping[Role, str], bucket: str = "") -> Site:
    """Return a cluster with MLflow, general nodes, and GPU nodes that may be spot.

    Args:
        name: of the environment.
        machines: what nodes of a role usually are, by which costs are counted; nobody asks the node itself.
        bucket: URI below which the smallest cluster keeps its state; empty for one with Lustre and a Pushgateway.
    """
    volumes = () if bucket else (Volume("nightshift-lustre", LUSTRE),)
    login = {"username": "MLFLOW_TRACKING_USERNAME", "password": "MLFLOW_TRACKING_PASSWORD"}
    light = Placement(
        image=image("base", EXAMPLE_REGISTRY),
        cpu_request="1",
        cpu_limit="2",
        memory_request="2Gi",
        memory_limit="4Gi",
        nodes={"nightshift/pool": "general"},
        retry=Retry(2, 30.0, 2.0),
        timeout=3600,
        volumes=volumes,
        secrets=(Secret("nightshift-mlflow", login),),
        environment={MACHINE: machines[Role.LIGHT]},
    )
    gpu = Placement(
        image=image("rapids", EXAMPLE_REGISTRY),
        cpu_request="4",
        cpu_limit="8",
        memory_request="16Gi",
        memory_limit="32Gi",
        gpus=1,
        # no node with more GPUs, of which the others would idle
        nodes={"nightshift/pool": "gpu", "nightshift/gpus": "1"},
        tolerations=(Toleration(GPU, "present"), Toleration("nightshift/spot", "true")),
        # a spot node goes away within two minutes, and another may take a while to come
        retry=Retry(5, 60.0, 2.0),
        timeout=4 * 3600,
        shared_memory="8Gi",
        volumes=volumes,
        labels=queue_labels(STEP),
        environment={MACHINE: machines[Role.GPU]},
        grace=120,  # as long as AWS' notice: a checkpoint is written in it
    )
    state: dict[str, Any] = {root: f"{bucket or LUSTRE}/{root}" for root in ROOTS}
    state |= {"registry": "http://mlflow.nightshift:5000", "target": DeploymentTarget.REGISTER_ONLY.value}
    # by the label a multi-user Kubeflow mounts a token for its API into a pod
    launcher = replace(light, labels={"access-ml-pipeline": "true"})
    token = Secret("nightshift-serving", {"token": "NIGHTSHIFT_SERVING_TOKEN"})
    reporting = replace(light, secrets=(*light.secrets, RECEIVERS))
    release = replace(light, secrets=(*light.secrets, token), account="nightshift-release")
    placements = {Role.LIGHT: light, Role.GPU: gpu, Role.TRAINING: replace(gpu, labels=queue_labels(TRAINING))}
    placements |= {Role.LAUNCHER: launcher, Role.REPORTING: reporting, Role.RELEASE: release}
    cluster = Site(name, placements, {"state": state, "device": "cuda"}, has_kubeflow=not bucket)
    return cluster if bucket else cluster.with_variables(**{GATEWAY: "http://pushgateway.nightshift:9091"})


_STEP = Placement(image=image("base"), cpu_request="1", memory_request="1G", memory_limit="2G")
# light steps read sources and registries that may be elsewhere; what fails on this machine's own files fails again
_LIGHT = replace(_STEP, retry=Retry(2, 10.0, 2.0))
_LOCAL = dict.fromkeys(Role, _LIGHT) | {Role.GPU: _STEP, Role.TRAINING: _STEP}
LOCAL = Site("local", _LOCAL)
AWS = _cluster("aws", {Role.LIGHT: "m7i.xlarge on-demand", Role.GPU: "g6.2xlarge spot"})
GCP = _cluster("gcp", {Role.LIGHT: "e2-standard-8 on-demand", Role.GPU: "g2-standard-12 spot"})
AWS_TRY = _cluster("aws-try", {Role.LIGHT: "t3a.xlarge spot", Role.GPU: "g6.2xlarge spot"}, "s3://example/state")
GCP_TRY = _cluster("gcp-try", {Role.LIGHT: "e2-standard-4 spot", Role.GPU: "g2-standard-12 spot"}, "gs://example/state")
SITES = {site.name: site for site in (LOCAL, AWS, GCP, AWS_TRY, GCP_TRY)}
