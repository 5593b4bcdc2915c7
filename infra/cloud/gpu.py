"""The effects of the GPU choices: charts, Terraform variables, and the order of capacity types."""

from collections.abc import Mapping
from typing import Any

from infra.cloud.answers import Capacity, Cloud, EnvironmentAnswers, GpuChoices, Provisioning

Json = dict[str, Any]
# NodePools of infra/cluster/karpenter
KARPENTERS_POOLS = {
    Capacity.RESERVATION: "gpu-reserved",
    Capacity.SPOT: "gpu-spot",
    Capacity.ON_DEMAND: "gpu-on-demand",
}
# as gpu_pools of infra/gcp has them
GOOGLES_CAPACITIES = {
    Capacity.RESERVATION: "reserved",
    Capacity.SPOT: "spot",
    Capacity.FLEX_START: "flex_start",
    Capacity.ON_DEMAND: "on_demand",
}
HIGHEST_WEIGHT = 100  # weight of a NodePool


def name_choices(gpu: GpuChoices) -> frozenset[str]:
    """Return the names of the choices in `infra/cluster/charts.yaml`."""
    switches = {"kueue": gpu.kueue, "node-repair": gpu.node_repair, "preload-images": gpu.preload_images}
    names = {gpu.provisioning.value, gpu.sharing.value, gpu.fabric.value}
    return frozenset(names | {name for name, is_on in switches.items() if is_on}) - {"autoscaler", "none"}


def set_variables(answers: EnvironmentAnswers) -> Json:
    """Return the Terraform variables that follow from the choices."""
    gpu = answers.gpu
    if answers.cloud is Cloud.GCP:  # GKE always repairs nodes and streams images
        return {
            "compute_class": gpu.provisioning is Provisioning.COMPUTE_CLASS,
            "gpu_sharing": gpu.sharing.value,
        }
    return {
        "karpenter": gpu.provisioning is Provisioning.KARPENTER,
        "gpu_sharing": gpu.sharing.value,
        "node_repair": gpu.node_repair,
        "preload_images": gpu.preload_images,
    }


def make_compute_class(gpu: GpuChoices, pools: Mapping[str, str]) -> Json:
    """Return the default ComputeClass: general nodes, then GPU pools in the order of the answers.

    Args:
        gpu: GPU choices.
        pools: capacity types of the GPU pools by name, `terraform output gpu_pools`.
    """
    order = [[name for name in sorted(pools) if pools[name] == GOOGLES_CAPACITIES[kind]] for kind in gpu.fallback]
    return {
        "apiVersion": "cloud.google.com/v1",
        "kind": "ComputeClass",
        "metadata": {"name": "default"},
        "spec": {
            "priorities": [{"nodepools": names} for names in (["general"], *order) if names],
            # moving a training to better nodes would lose its progress
            "activeMigration": {"optimizeRulePriority": False},
            # so that pools outside the order, such as the shared one, are used too
            "whenUnsatisfiable": "ScaleUpAnyway",
        },
    }


def weigh_pools(gpu: GpuChoices) -> dict[str, int | None]:
    """Return the weights of Karpenter's NodePools; None for a capacity type that is not in the order."""
    return {
        pool: HIGHEST_WEIGHT - gpu.fallback.index(kind) if kind in gpu.fallback else None
        for kind, pool in KARPENTERS_POOLS.items()
    }
