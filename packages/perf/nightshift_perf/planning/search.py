"""Plans: what a layout needs and takes, whether it fits, and the fastest one that does."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

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


def plan_fitting(model: Model, cluster: Cluster, layout: ParallelLayout) -> LayoutPlan:
    """Return the plan of a layout that fits.

    Raises:
        UserError: when it does not; the message says by how much, and what would.
    """
    candidate = plan(model, cluster, layout)
    if candidate.fits:
        return candidate
    best = fastest(model, cluster, layout)
    raise UserError(f"{_overfull(candidate)}; {_instead(best) if best else _more(model, cluster, layout)}")


def propose_plan(model: Model, cluster: Cluster, like: ParallelLayout) -> LayoutPlan:
    """Return the fastest plan that fits.

    Args:
        model: the model.
        cluster: where it is trained.
        like: gives the batch, precision, kernels and trainer; the rest is searched.

    Raises:
        UserError: when none fits; the message says what would.
    """
    cluster.gpu.peak(like.precision)
    best = fastest(model, cluster, like)
    if best is None:
        where = f"{cluster.gpus} x {cluster.gpu.name}"
        raise UserError(f"no layout of this model with batch {like.batch} fits {where}; {_more(model, cluster, like)}")
    return best


def fastest(model: Model, cluster: Cluster, like: ParallelLayout) -> LayoutPlan | None:
    """Return the fastest plan that fits, None where none does; see `propose_plan`."""
    plans = (_try_plan(model, cluster, layout) for layout in _layouts(model, cluster, like))
    return min((candidate for candidate in plans if candidate and candidate.fits), key=_rank, default=None)


def _rank(candidate: LayoutPlan) -> tuple[float, int]:
    # what the formulas leave out, kernels' launches, is less with larger micro-batches
    return candidate.timing.step, -candidate.layout.micro_batch


def _try_plan(model: Model, cluster: Cluster, layout: ParallelLayout) -> LayoutPlan | None:
    try:
        return plan(model, cluster, layout)
    except UserError:
        return None


def _layouts(model: Model, cluster: Cluster, like: ParallelLayout) -> Iterator[ParallelLayout]:
    tensors = [size for size in SPLITS if size <= cluster.per_node and model.heads % size == 0]
    contexts = SPLITS if model.tokens >= LONG else (1,)
    stages = [count for count in range(1, model.layers + 1) if cluster.gpus % count == 0]
    for tensor, context, pipeline, micro_batch in product(tensors, contexts, stages, MICRO_BATCHES):
        group = tensor * context * pipeline
        if cluster.gpus % group or like.batch % (cluster.gpus // group * micro_batch):
            continue
        for interleave, zero, checkpointing in product(_chunks(model, pipeline), range(4), Checkpointing):
            yield replace(
                like,
                micro_batch=micro_batch,
                tensor=tensor,
                context=context,
                pipeline=pipeline,
                interleave=interleave,
                zero=zero,
                checkpointing=checkpointing,
            )


def _chunks(model: Model, pipeline: int) -> list[int]:
    """Return the numbers of chunks that divide the layers of a stage evenly; 1 always can be."""
    layers = model.layers // pipeline if pipeline > 1 and model.layers % pipeline == 0 else 1
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
