"""Plans: what a layout needs and takes, whether it fits, and the fastest one that does."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from nightshift.runtime.errors import UserError
from nightshift_perf.planning import memory, timing
from nightshift_perf.planning.layout import Checkpointing, Cluster, ParallelLayout, TrainerKind, check
from nightshift_perf.planning.memory import GIB, Memory
from nightshift_perf.planning.models import Convolutions, Model
from nightshift_perf.planning.timing import Timing

MICRO_BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
SPLITS = (1, 2, 4, 8, 16)  # GPUs of a layer, and of a sequence
LONG = 32768  # tokens of a sequence from which on splitting it is tried


@dataclass(frozen=True)
class LayoutPlan:
    """A layout of a model on a cluster, with what it needs and takes."""

    model: Model
    cluster: Cluster
    layout: ParallelLayout
    memory: Memory
    timing: Timing

    @property
    def fits(self) -> bool:
        """Whether the fullest GPU holds it."""
        return self.memory.total <= self.cluster.gpu.memory

    @property
    def throughput(self) -> float:
        """Tokens, or images, a second on one GPU."""
        return self.layout.batch * self.model.tokens / self.timing.step / self.cluster.gpus

    @property
    def mfu(self) -> float:
        """Model FLOPs utilization, 0..1."""
        return timing.mfu(self.model, self.cluster, self.layout, self.timing.step)

    def hours(self, samples: float) -> float:
        """Return how long an epoch of so many samples takes."""
        return samples / self.layout.batch * self.timing.step / 3600


def plan(model: Model, cluster: Cluster, layout: ParallelLayout) -> LayoutPlan:
    """Compute what a layout needs and takes.

    Raises:
        UserError: when the layout cannot be.
    """
    check(model, cluster, layout)
    return LayoutPlan(
        model, cluster, layout, memory.estimate_memory(model, cluster, layout), timing.estimate(model, cluster, layout)
    )


def propose_plan(model: Model, cluster: Cluster, like: ParallelLayout, fixed: Collection[str] = ()) -> LayoutPlan:
    """Return the fastest plan that fits.

    Args:
        model: the model.
        cluster: where it is trained.
        like: gives the batch, precision, kernels and trainer.
        fixed: further fields that `like` gives; the rest is searched.

    Raises:
        UserError: when none fits; the message says by how much, and what would.
    """
    cluster.gpu.peak(like.precision)
    plans = _list_plans(model, cluster, like, fixed)
    if best := _choose(plans):
        return best
    if not fixed:
        where = f"{cluster.gpus} x {cluster.gpu.name}"
        raise UserError(f"no layout of this model with batch {like.batch} fits {where}; {_more(model, cluster, like)}")
    leanest = min(plans, key=lambda plan: plan.memory.total) if plans else plan(model, cluster, like)
    instead = fastest(model, cluster, like)
    raise UserError(f"{_overfull(leanest)}; {_instead(instead) if instead else _more(model, cluster, like)}")


def fastest(model: Model, cluster: Cluster, like: ParallelLayout) -> LayoutPlan | None:
    """Return the fastest plan that fits, None where none does; see `propose_plan`."""
    return _choose(_list_plans(model, cluster, like))


def _choose(plans: Iterable[LayoutPlan]) -> LayoutPlan | None:
    return min((candidate for candidate in plans if candidate.fits), key=_rank, default=None)


def _list_plans(model: Model, cluster: Cluster, like: ParallelLayout, fixed: Collection[str] = ()) -> list[LayoutPlan]:
    plans = (_try_plan(model, cluster, layout) for layout in _layouts(model, cluster, like, fixed))
    return [candidate for candidate in plans if candidate]


def _rank(candidate: LayoutPlan) -> tuple[float, int]:
    # what the formulas leave out, kernels' launches, is less with larger micro-batches
    return candidate.timing.step, -candidate.layout.micro_batch


def _try_plan(model: Model, cluster: Cluster, layout: ParallelLayout) -> LayoutPlan | None:
    try:
        return plan(model, cluster, layout)
    except UserError:
        return None


def _layouts(model: Model, cluster: Cluster, like: ParallelLayout, fixed: Collection[str]) -> Iterator[ParallelLayout]:
    grid: dict[str, Sequence[Any]] = {
        "tensor": [size for size in SPLITS if size <= cluster.per_node and model.heads % size == 0],
        "context": SPLITS if model.tokens >= LONG else (1,),
        "pipeline": [count for count in range(1, model.layers + 1) if cluster.gpus % count == 0],
        "micro_batch": MICRO_BATCHES,
    }
    # a network planned as one layer would recompute all of it at once, which saves nothing
    kept = tuple(Checkpointing) if model.layers > 1 else (Checkpointing.NONE,)
    inner: dict[str, Sequence[Any]] = {"zero": range(4), "checkpointing": kept}
    grid, inner = (
        {name: (getattr(like, name),) if name in fixed else values for name, values in axes.items()}
        for axes in (grid, inner)
    )
    for values in product(*grid.values()):
        layout = replace(like, **dict(zip(grid, values, strict=True)))
        group = layout.tensor * layout.context * layout.pipeline
        if cluster.gpus % group or like.batch % (cluster.gpus // group * layout.micro_batch):
            continue
        chunks = (like.interleave,) if "interleave" in fixed else _chunks(model, layout.pipeline)
        for interleave, zero, checkpointing in product(chunks, *inner.values()):
            yield replace(layout, interleave=interleave, zero=zero, checkpointing=checkpointing)


def _chunks(model: Model, pipeline: int) -> list[int]:
    """Return the numbers of chunks that divide the layers of the fullest stage evenly."""
    layers = -(-model.layers // pipeline) if pipeline > 1 else 1
    return [count for count in range(1, layers + 1) if layers % count == 0]


def _overfull(candidate: LayoutPlan) -> str:
    need, has = candidate.memory.total / GIB, candidate.cluster.gpu.memory / GIB
    parts = f"{candidate.memory.states / GIB:.1f} states, {candidate.memory.activations / GIB:.1f} activations"
    return f"the layout needs {need:.1f} GiB a GPU ({parts}), {candidate.cluster.gpu.name} has {has:.1f}"


def _instead(best: LayoutPlan) -> str:
    needs = f"{best.memory.total / GIB:.1f} GiB and {best.timing.step:.3g} s a step"
    return f"this would fit, in {needs}: {flags(best.layout)}"


def flags(layout: ParallelLayout) -> str:
    """Return the flags of the command that describe a layout."""
    names = ("micro_batch", "tensor", "context", "pipeline", "interleave", "zero", "shard", "checkpointing")
    trainer = "" if layout.trainer is TrainerKind.NATIVE else f" --trainer {layout.trainer}"
    return " ".join(f"--{name.replace('_', '-')} {getattr(layout, name)}" for name in names) + trainer


def _more(model: Model, cluster: Cluster, like: ParallelLayout) -> str:
    """Say how many nodes would do, with as many samples a GPU."""
    for doubled in (2, 4, 8, 16, 32, 64, 128):
        larger = replace(cluster, nodes=cluster.nodes * doubled)
        batch = -(-like.batch // larger.gpus) * larger.gpus
        if fastest(model, larger, replace(like, batch=batch)):
            return f"it would on {larger.nodes} nodes with --batch {batch}"
    kind = "" if isinstance(model, Convolutions) else ", a shorter --sequence"
    return f"take GPUs with more memory{kind} or a smaller model"
