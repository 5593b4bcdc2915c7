"""A plan as YAML: what is trained, where, how it is laid out, and what to expect of it."""

from dataclasses import asdict
from typing import Any

import yaml

from nightshift.planning.memory import GIB
from nightshift.planning.search import Plan


def written(plan: Plan, name: str) -> str:
    """Return the recipe of a plan.

    Args:
        plan: what was planned.
        name: of the model's preset.
    """
    cluster, layout = plan.cluster, asdict(plan.layout)
    recipe: dict[str, Any] = {
        "model": {"name": name, **asdict(plan.model)},
        "cluster": {
            "gpu": cluster.gpu.name,
            "nodes": cluster.nodes,
            "gpus_per_node": cluster.per_node,
            "network_gbit": round(cluster.network * 8 / 1e9),
        },
        "layout": {name: str(value) if name == "checkpointing" else value for name, value in layout.items()}
        | {"data": plan.layout.data(cluster), "micro_batches": plan.layout.micro_batches(cluster)},
        "expected": {
            "memory_gib": round(plan.memory.total / GIB, 1),
            "step_seconds": round(plan.timing.step, 4),
            "throughput_per_gpu": round(plan.throughput, 1),
            "mfu": round(plan.mfu, 3),
        },
    }
    return yaml.safe_dump(recipe, sort_keys=False)
