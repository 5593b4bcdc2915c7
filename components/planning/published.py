"""The formulas against what others have measured: the table of `published.yaml`, recomputed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from components.common.hardware import gpu
from components.planning import memory, search
from components.planning.layout import Checkpointing, Cluster, Layout
from components.planning.models import Model, preset
from components.planning.search import Plan

TABLE = Path(__file__).with_name("published.yaml")
TOLERANCE = 0.1


@dataclass(frozen=True)
class Point:
    """A published figure, and the setup it was measured on.

    Attributes:
        name: what was measured.
        value: the figure.
        unit: of it.
        model: preset and changed values.
        cluster: GPU, nodes, GPUs of a node, network in Gbit/s.
        layout: the strategy; `searched: true` where it was not published, so that the planner's own stands for it.
        quantity: what to compute, see `QUANTITIES`.
        source: where the figure stands.
        reason: why the prediction is further off than a tenth; empty where it is not.
    """

    name: str
    value: float
    unit: str
    model: Mapping[str, Any]
    cluster: Mapping[str, Any]
    layout: Mapping[str, Any]
    quantity: str
    source: str
    reason: str = ""

    def predict(self) -> float:
        """Return the planner's figure for the same setup."""
        model = preset(**self.model)
        place = Cluster(
            gpu(self.cluster["gpu"]), self.cluster["nodes"], self.cluster["per_node"], self.cluster["gbit"] / 8 * 1e9
        )
        given = dict(self.layout)
        is_searched = given.pop("searched", False)
        layout = Layout(**given | {"checkpointing": Checkpointing(given.get("checkpointing", "none"))})
        found = (search.proposed if is_searched else search.plan)(model, place, layout)
        return QUANTITIES[self.quantity](found)

    def error(self) -> float:
        """Return how far the prediction is off, relative to the published figure."""
        return self.predict() / self.value - 1


def points() -> list[Point]:
    """Return the table."""
    table = yaml.safe_load(TABLE.read_text())
    return [Point(**row) for row in table["points"]]


def _speedup(found: Plan) -> float:
    """Return how much faster all GPUs are than one, with as many samples a GPU."""
    alone = replace(found.cluster, nodes=1, per_node=1)
    one = search.plan(found.model, alone, replace(found.layout, batch=found.layout.batch // found.cluster.gpus))
    return found.throughput * found.cluster.gpus / one.throughput


def _states(model: Model, found: Plan) -> float:
    return memory.states(model, found.layout, found.layout.data(found.cluster))


QUANTITIES: dict[str, Callable[[Plan], float]] = {
    "step": lambda found: found.timing.step,
    "throughput": lambda found: found.throughput,
    "mfu": lambda found: 100 * found.mfu,
    "memory": lambda found: found.memory.total / 2**30,
    "states": lambda found: _states(found.model, found) / 1e9,
    "speedup": _speedup,
}
