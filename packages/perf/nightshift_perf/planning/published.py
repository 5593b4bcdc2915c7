"""The formulas against what others have measured: the table of `published.csv`, recomputed.

The error that counts is of a source that the fit has not seen: each is predicted by shares fitted to all others.

`python -m nightshift_perf.planning.published` prints the page packages/perf/docs/planning-points.md.
"""

import csv
import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from textwrap import wrap
from typing import Any

from nightshift.runtime import strict_yaml
from nightshift_perf.hardware import gpu
from nightshift_perf.planning import memory, search, timing
from nightshift_perf.planning.efficiency import Efficiency, find_row, read_table
from nightshift_perf.planning.layout import Checkpointing, Cluster, ParallelLayout, TrainerKind
from nightshift_perf.planning.models import Model, Transformer, preset
from nightshift_perf.planning.search import LayoutPlan

TABLE, SOURCES = (Path(__file__).with_name(f"published.{kind}") for kind in ("csv", "yaml"))
SPEEDS = ("step", "throughput", "mfu", "hfu")
COUNTS = ("batch", "micro_batch", "tensor", "pipeline", "interleave", "context", "zero")
SWITCHES = ("fused", "flash", "sequence_parallel")


@dataclass(frozen=True)
class PublishedFigure:
    """A published figure, and the setup it was measured on.

    Attributes:
        name: what was measured.
        source: a key of `published.yaml`.
        quantity: what to compute, see `QUANTITIES`.
        value: the figure.
        unit: of it.
        row: the setup, by column.
    """

    name: str
    source: str
    quantity: str
    value: float
    unit: str
    row: Mapping[str, str]

    @cached_property
    def plan(self) -> LayoutPlan:
        """The planner's figures for the same setup."""
        row = self.row
        sizes = {"sequence": int(row["sequence"])} if row["sequence"] else {}
        cluster = Cluster(gpu(row["gpu"]), int(row["nodes"]), int(row["per_node"]), float(row["gbit"]) / 8 * 1e9)
        splits: dict[str, Any] = {name: int(row[name]) for name in COUNTS}
        layout = ParallelLayout(
            **splits | {name: row[name] == "1" for name in SWITCHES},
            checkpointing=Checkpointing(row["checkpointing"]),
            precision=row["precision"],
            trainer=TrainerKind(row["trainer"]),
        )
        model = replace(preset(row["model"], **sizes), lora_rank=int(row["lora_rank"]))
        return search.plan(model, cluster, layout)

    @property
    def is_fitted(self) -> bool:
        """Whether `efficiency.yaml` is fitted to it: a transformer's speed."""
        return self.quantity in SPEEDS and isinstance(self.plan.model, Transformer)

    def predict(self, rows: Mapping[str, Efficiency]) -> float:
        """Return the planner's figure, by the shares of each architecture."""
        plan = self.plan
        timed = timing.estimate(plan.model, plan.cluster, plan.layout, find_row(rows, plan.cluster.gpu))
        return QUANTITIES[self.quantity](replace(plan, timing=timed))

    @cached_property
    def prediction(self) -> float:
        """The planner's figure."""
        return QUANTITIES[self.quantity](self.plan)

    @cached_property
    def unseen(self) -> float:
        """The planner's figure by a fit that has not seen the source."""
        return self.predict(read_table()[self.source]) if self.is_fitted else self.prediction

    @property
    def cells(self) -> tuple[str, ...]:
        """The point as a row of a table: published, figure, planner, error, error without the source."""
        errors = [f"{100 * (value / self.value - 1):+z.1f} %" for value in (self.prediction, self.unseen)]
        return self.name, f"{self.value:,g} {self.unit}", f"{self.prediction:,.4g}", errors[0], errors[1]


def points() -> list[PublishedFigure]:
    """Return the table."""
    with TABLE.open(newline="") as file:
        return [_point(row) for row in csv.DictReader(file)]


def _point(row: dict[str, str]) -> PublishedFigure:
    names = ("name", "source", "quantity", "unit")
    return PublishedFigure(**{name: row[name] for name in names}, value=float(row["value"]), row=row)


@dataclass(frozen=True)
class PlannerError:
    """How far speeds are off that the fit has not seen, relative to the published ones.

    Each source weighs the same, however many points it has.

    Attributes:
        points: number of figures.
        sources: number of sources.
        median: of the absolute errors.
        tail: their 90th percentile.
    """

    points: int
    sources: int
    median: float
    tail: float


def measure_error(table: Iterable[PublishedFigure]) -> PlannerError:
    """Return the error of the speeds of transformers, each by a fit without its source."""
    speeds = [point for point in table if point.is_fitted]
    sources = Counter(point.source for point in speeds)
    errors = sorted((abs(point.unseen / point.value - 1), 1 / sources[point.source]) for point in speeds)
    return PlannerError(len(speeds), len(sources), weighted_quantile(errors, 0.5), weighted_quantile(errors, 0.9))


def weighted_quantile(errors: Sequence[tuple[float, float]], share: float) -> float:
    """Return the value below which a share of the weights lies, of sorted pairs of value and weight."""
    until = share * sum(weight for _, weight in errors)
    reached = accumulate(weight for _, weight in errors)
    return next(error for (error, _), weight in zip(errors, reached, strict=True) if weight >= until)


@functools.cache
def stated_error() -> PlannerError:
    """Return the error that goes with every answer."""
    return measure_error(points())


def page(table: Sequence[PublishedFigure]) -> Iterator[str]:
    """Yield the lines of packages/perf/docs/planning-points.md."""
    yield "# The planner against published figures, point by point\n"
    yield "How far `nightshift perf plan` can be trusted, in detail; [planning.md](planning.md) sums up. No GPU of"
    yield "ours has run any of these. The last column is the error of a fit that has not seen the source. Written by"
    yield "`make compile`.\n"
    yield from summary(table)
    for source, where in strict_yaml.load_document(SOURCES.read_text()).items():
        prose = "\n".join(wrap(where, 120, break_long_words=False, break_on_hyphens=False))
        yield f"\n## {source}\n\n{prose}\n\n| published | figure | planner | error | unseen |\n|---|---|---|---|---|"
        yield from (f"| {' | '.join(point.cells)} |" for point in table if point.source == source)


def summary(table: Sequence[PublishedFigure]) -> Iterator[str]:
    """Yield the lines of a table of errors by source, each by a fit that has not seen it."""
    yield "| speeds of a source that was not fitted | points | median error | 90th percentile |\n|---|---|---|---|"
    for source in dict.fromkeys(point.source for point in table):
        with suppress(StopIteration):
            yield _summary_row(source, measure_error(point for point in table if point.source == source))
    yield _summary_row("all, each source weighs the same", measure_error(table))


def _summary_row(name: str, error: PlannerError) -> str:
    return f"| {name} | {error.points} | {error.median:.1%} | {error.tail:.1%} |"


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
    "hfu": lambda plan: 100 * plan.mfu * (1 + timing.AGAIN[plan.layout.checkpointing][0] / 3),
    "memory": lambda plan: plan.memory.total / 2**30,
    "states": lambda plan: _states(plan.model, plan) / 1e9,
    "speedup": _speedup,
}

if __name__ == "__main__":
    print("\n".join(page(points())))  # noqa: T201 - the page
