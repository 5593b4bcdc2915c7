"""Several GPUs together: which one the others wait for."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nightshift.contracts.profile import Rank
from nightshift.runtime.errors import UserError
from nightshift_perf.traces.breakdown import Breakdown
from nightshift_perf.traces.scaling import StepMeasurement
from nightshift_perf.traces.trace import Origin

NEGLIGIBLE = 0.01  # share of another GPU's work
RANK = re.compile(r"rank[_.-]?(\d+)", re.IGNORECASE)
APART = 1.5  # ratio of step times from which on traces hardly are of one training


@dataclass(frozen=True)
class Imbalance:
    """How unevenly computation is spread; `won` is microseconds in all steps."""

    slowest: Breakdown
    percent: float
    won: float


def check_related(origins: Sequence[Origin]) -> None:
    """Refuse traces of which nothing tells that they are ranks of one training, or points of one scaling curve.

    Raises:
        UserError: names the traces.
    """
    numbers = [(_rank(origin), origin.world_size) for origin in origins]
    if len(origins) > 1 and (len(set(numbers)) < len(numbers) or (None, None) in numbers):
        sources = ", ".join(origin.source for origin in origins)
        raise UserError(
            f"{sources}: nothing tells that these traces are ranks of one training (their distributedInfo, or names "
            "such as rank0.json); to compare two trainings give --before TRACE --after TRACE"
        )


def _rank(origin: Origin) -> int | None:
    """Return a trace's rank, by what it says or by its name."""
    named = RANK.search(Path(origin.source).name)
    return int(named[1]) if origin.rank is None and named else origin.rank


def describe_rank(one: Breakdown) -> Rank:
    """Return one GPU's figures."""
    origin = one.trace.origin
    return Rank(
        source=origin.source,
        rank=origin.rank,
        process=origin.process,
        device=one.device,
        device_name=origin.devices.get(one.device, ""),
        steps=len(one.trace.steps),
        step_ms=round(one.step_ms, 4),
        gpu_busy_pct=round(one.percent(one.busy), 3),
        compute_ms=round(one.ms(one.compute), 4),
        data_wait_pct=round(one.percent(one.loading), 3),
        communication_pct=round(one.percent(one.communication), 3),
        exposed_communication_pct=round(one.percent(one.exposed_communication), 3),
    )


def name(one: Breakdown) -> str:
    """Return how people call a GPU of a trace."""
    origin = one.trace.origin
    if origin.rank is not None:
        return f"rank {origin.rank}"
    return f"GPU {one.device} of process {origin.process}" if origin.process else f"GPU {one.device}"


def are_ranks(breakdowns: Sequence[Breakdown]) -> bool:
    """Return whether GPUs wait for each other: those of several processes, each another rank, that communicate."""
    origins = [one.trace.origin for one in breakdowns]
    numbers = [origin.rank for origin in origins if origin.rank is not None]
    apart = {(origin.source, origin.rank, origin.process) for origin in origins}
    talk = all(one.communication > 0 or (one.trace.origin.world_size or 1) > 1 for one in breakdowns)
    return len(breakdowns) > 1 and len(apart) == len(breakdowns) and len(set(numbers)) == len(numbers) and talk


def find_working(breakdowns: Sequence[Breakdown]) -> list[Breakdown]:
    """Return the GPUs that do the work.

    Left out is a GPU that does next to nothing beside another one of its process, and a process that does next to
    nothing beside another one of its recording and marks no step of its own.
    """
    return [one for one in breakdowns if not any(_is_dwarfed(one, other) for other in breakdowns)]


def _is_dwarfed(one: Breakdown, other: Breakdown) -> bool:
    mine, theirs = one.trace.origin, other.trace.origin
    is_recording = (mine.source, mine.rank) == (theirs.source, theirs.rank)
    together = is_recording and (mine.process == theirs.process or not len(one.trace.steps))
    return together and one.busy < NEGLIGIBLE * other.busy


def imbalance(breakdowns: Sequence[Breakdown]) -> Imbalance | None:
    """Return how much longer the slowest GPU computes than the mean; None where they are no ranks."""
    if not are_ranks(breakdowns):
        return None
    times = np.array([one.compute / one.steps for one in breakdowns])
    slowest, mean = breakdowns[int(np.argmax(times))], float(times.mean())
    above = float(times.max()) - mean
    return Imbalance(slowest, 100 * above / mean if mean else 0.0, above * slowest.steps)


def points(breakdowns: Sequence[Breakdown]) -> list[StepMeasurement]:
    """Return one point per world size, of the slowest of its GPUs; none when there is one size only."""
    sizes = sorted({one.trace.origin.world_size for one in breakdowns if one.trace.origin.world_size})
    if len(sizes) < 2:
        return []
    groups = [[one for one in breakdowns if one.trace.origin.world_size == size] for size in sizes]
    slowest = [max(group, key=lambda one: one.step_ms) for group in groups]
    return [
        StepMeasurement(size, one.step_ms, one.ms(one.compute), one.ms(one.exposed_communication))
        for size, one in zip(sizes, slowest, strict=True)
    ]
