"""What the choices about GPUs come to: what is installed, Terraform's variables, steps' placements, and objects."""

from collections.abc import Mapping
from typing import Any

from infra.cloud.answers import Answers, Capacity, Fabric, GpuChoices, Provisioning, Sharing
from pipelines.environments import Site

Json = dict[str, Any]
COMPUTE_CLASS = "nightshift-gpu"
# as the variable gpu_pools of infra/gcp has them
CAPACITIES = {
    Capacity.RESERVATION: "reserved",
    Capacity.SPOT: "spot",
    Capacity.FLEX_START: "flex_start",
    Capacity.ON_DEMAND: "on_demand",
}
KARPENTERS_POOLS = {
    Capacity.RESERVATION: "gpu-reserved",
    Capacity.SPOT: "gpu-spot",
    Capacity.ON_DEMAND: "gpu-on-demand",
}
MACHINE = "/spec/template/spec/replicatedJobs/0/template/spec/template/spec"
EFA = f"{MACHINE}/containers/0/resources/limits/vpc.amazonaws.com~1efa"


def name_choices(gpu: GpuChoices) -> frozenset[str]:
    """Return the choices by the names that `infra/cluster/charts.yaml` has for them."""
    switches = {"kueue": gpu.kueue, "node-repair": gpu.node_repair, "preload-images": gpu.preload_images}
    names = {gpu.provisioning.value, gpu.sharing.value, gpu.fabric.value}
    return frozenset(names | {name for name, is_on in switches.items() if is_on}) - {"autoscaler", "none"}


def set_variables(answers: Answers) -> Json:
    """Return the variables of the cloud's Terraform that follow from the choices; what is off is left to its default."""
    gpu = answers.gpu
    wanted: dict[str, Any] = {
        "aws": {
            "karpenter": gpu.provisioning is Provisioning.KARPENTER,
            "node_repair": gpu.node_repair,
            "preload_images": gpu.preload_images,
        },
        # GKE repairs nodes, and streams images, whatever is chosen
        "gcp": {"compute_class": COMPUTE_CLASS if gpu.provisioning is Provisioning.COMPUTE_CLASS else None},
    }[answers.cloud]
    sharing = {"gpu_sharing": gpu.sharing.value if gpu.sharing is not Sharing.NONE else None}
    return {name: value for name, value in (wanted | sharing).items() if value}


def place_steps(site: Site, gpu: GpuChoices) -> Site:
    """Return the site whose steps have the labels and nodes that go with the choices."""
    queued = site.with_queue() if gpu.kueue else site
    return queued.with_compute_class(COMPUTE_CLASS) if gpu.provisioning is Provisioning.COMPUTE_CLASS else queued


def list_components(gpu: GpuChoices) -> list[str]:
    """Return the folders of `infra/kubernetes` that the overlay of an environment takes as components."""
    chosen = name_choices(gpu)
    return [name for name in ("efa", "gib", "compute-class") if name in chosen]


def patch_interfaces(gpu: GpuChoices, interfaces: int) -> list[Json]:
    """Return the patch by which a machine of a TrainJob asks for all EFA interfaces of its node.

    Args:
        gpu: the choices.
        interfaces: `terraform output efa_interfaces`.
    """
    if gpu.fabric is not Fabric.EFA or not interfaces:
        return []
    operation = {"op": "replace", "path": EFA, "value": str(interfaces)}
    return [{"target": {"kind": "TrainingRuntime", "name": "nightshift"}, "patch": json.dumps([operation])}]


def make_compute_class(gpu: GpuChoices, pools: Mapping[str, str]) -> Json:
    """Return the ComputeClass by which GKE tries node pools in the order of the answers.

    Args:
        gpu: the choices.
        pools: capacities of the pools by name, `terraform output gpu_pools`.
    """
    by_capacity = [[name for name, capacity in pools.items() if capacity == CAPACITIES[kind]] for kind in gpu.fallback]
    return {
        "apiVersion": "cloud.google.com/v1",
        "kind": "ComputeClass",
        "metadata": {"name": COMPUTE_CLASS},
        # a training that is moved to a better pool has lost its hours
        "spec": {
            "priorities": [{"nodepools": sorted(names)} for names in by_capacity if names],
            "activeMigration": {"optimizeRulePriority": False},
            "whenUnsatisfiable": "DoNotScaleUp",
        },
    }


def make_karpenter_overlay(answers: Answers, node_role: str) -> Json:
    """Return the kustomization over `infra/cluster/karpenter` with the names of an environment, and its order of pools.

    Args:
        answers: of the environment.
        node_role: name of the nodes' role, from `terraform output karpenter`.
    """
    cluster = answers.cluster
    nodes = {
        "role": node_role,
        "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": cluster}}],
        "securityGroupSelectorTerms": [{"tags": {f"kubernetes.io/cluster/{cluster}": "owned"}}],
        "tags": {"environment": answers.environment},
    }
    if answers.gpu.preload_images:
        nodes["userData"] = FAST_PULLS
    pools = [_weigh(pool, answers.gpu.fallback, kind) for kind, pool in KARPENTERS_POOLS.items()]
    return {
        "apiVersion": "kustomize.config.k8s.io/v1beta1",
        "kind": "Kustomization",
        "resources": ["../../../cluster/karpenter"],
        "patches": [_patch("karpenter.k8s.aws/v1", "EC2NodeClass", "gpu", {"spec": nodes}), *pools],
    }
