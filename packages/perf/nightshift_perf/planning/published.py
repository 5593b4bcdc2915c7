"""The formulas against what others have measured: the table of `published.csv`, recomputed.

`python -m nightshift_perf.planning.published` prints the page packages/perf/docs/planning-points.md.
"""

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from nightshift.runtime import strict_yaml
from nightshift_perf.hardware import gpu
from nightshift_perf.planning import memory, search
from nightshift_perf.planning.layout import Checkpointing, Cluster, ParallelLayout, TrainerKind
from nightshift_perf.planning.models import Model, preset
from nightshift_perf.planning.search import LayoutPlan

TABLE, SOURCES = (Path(__file__).with_name(f"published.{kind}") for kind in ("csv", "yaml"))
FITTED, HELD_OUT = "fitted", "held out"
SPEEDS = ("step", "throughput")
COUNTS = ("batch", "micro_batch", "tensor", "pipeline", "interleave", "context", "zero")
SWITCHES = ("fused", "flash", "sequence_parallel")


@dataclass(frozen=True)
class PublishedFigure:
    """A published figure, and the setup it was measured on.

    Attributes:
        name: what was measured.
        source: a key of `published.yaml`.
        role: `fitted` where the shares of `efficiency.yaml` were fitted to it, else `held out`.
        quantity: what to compute, see `QUANTITIES`.
        value: the figure.
        unit: of it.
        row: the setup, by column; where the layout is empty it was not published, and the planner's own stands for it.
    """

    name: str
    source: str
    role: str
    quantity: str
    value: float
    unit: str
    row: Mapping[str, str]

    def plan(self) -> LayoutPlan:
        """Return the planner's figures for the same setup."""
        row = self.row
        sizes = {"sequence": int(row["sequence"])} if row["sequence"] else {}
        cluster = Cluster(gpu(row["gpu"]), int(row["nodes"]), int(row["per_node"]), float(row["gbit"]) / 8 * 1e9)
        splits: dict[str, Any] = {name: int(row[name]) for name in COUNTS if row[name]}
        layout = ParallelLayout(
            **splits | {name: row[name] == "1" for name in SWITCHES},
            checkpointing=Checkpointing(row["checkpointing"] or "none"),
            precision=row["precision"],
            trainer=TrainerKind.MEGATRON,  # states of 18 bytes a parameter, as all sources' trainers are counted
        )
        compute = search.plan if row["micro_batch"] else search.propose_plan
        return compute(preset(row["model"], **sizes), cluster, layout)

    @cached_property
    def prediction(self) -> float:
        """The planner's figure."""
        return QUANTITIES[self.quantity](self.plan())

    @property
    def error(self) -> float:
        """How far the planner is off, relative to the published figure."""
        return self.prediction / self.value - 1

    @property
    def cells(self) -> tuple[str, ...]:
        """The point as a row of a table: published, figure, planner, error, role."""
        error = f"{100 * self.error:+z.1f} %"
        return self.name, f"{self.value:,g} {self.unit}", f"{self.prediction:,.4g}", error, self.role


def points() -> list[PublishedFigure]:
    """Return the table."""
    with TABLE.open(newline="") as file:
        return [_point(row) for row in csv.DictReader(file)]


def _point(row: dict[str, str]) -> PublishedFigure:
    names = ("name", "source", "role", "quantity", "unit")
    return PublishedFigure(**{name: row[name] for name in names}, value=float(row["value"]), row=row)


def errors(table: Iterable[PublishedFigure], role: str) -> list[float]:
    """Return how far the speeds of a role are off, relative to the published ones."""
    return [point.error for point in table if point.role == role and point.quantity in SPEEDS]


def spread(relative: Iterable[float]) -> tuple[float, float]:
    """Return the median and the 90th percentile of absolute errors."""
    absolute = [abs(error) for error in relative]
    return median(absolute), quantiles(absolute, n=10)[-1]


def page(table: Sequence[PublishedFigure]) -> Iterator[str]:
    """Yield the lines of packages/perf/docs/planning-points.md."""
    yield "# The planner against published figures, point by point\n"
    yield "How far `nightshift perf plan` can be trusted, in detail; [planning.md](planning.md) sums up. No GPU of"
    yield "ours has run any of these. Written by `make compile`.\n"
    yield "| speeds | points | median error | 90th percentile |\n|---|---|---|---|"
    for role in (FITTED, HELD_OUT):
        relative = errors(table, role)
        yield "| {} | {} | {:.1%} | {:.1%} |".format(role, len(relative), *spread(relative))
    for source, where in strict_yaml.load_document(SOURCES.read_text()).items():
        yield f"\n## {source}\n\n{where}\n\n| published | figure | planner | error | role |\n|---|---|---|---|---|"
        yield from (f"| {' | '.join(point.cells)} |" for point in table if point.source == source)


def _speedup(plan: LayoutPlan) -> float:
    """Return how much faster all GPUs are than one, with as many samples a GPU."""
    alone = replace(plan.cluster, nodes=1, per_node=1)
    one = search.plan(plan.model, alone, replace(plan.layout, batch=plan.layout.batch // plan.cluster.gpus))
    return plan.throughput * plan.cluster.gpus / one.throughput


def _states(model: Model, plan: LayoutPlan) -> float:
    return memory.states(model, plan.layout, plan.layout.shards(plan.cluster))


QUANTITIES: dict[str, Callable[[LayoutPlan], float]] = {
    "step": lambda plan: plan.timing.step,
    "throughput": lambda plan: plan.throughput,
    "mfu": lambda plan: 100 * plan.mfu,
    "memory": lambda plan: plan.memory.total / 2**30,
    "states": lambda plan: _states(plan.model, plan) / 1e9,
    "speedup": _speedup,
}

if __name__ == "__main__":
    print("\n".join(page(points())))  # noqa: T201 - the page
