"""How much of a busy GPU its kernels use: multiprocessors without a block, occupancy, clocks that fall."""

import re
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from nightshift_perf.traces import communication, names, timeline
from nightshift_perf.traces.breakdown import Breakdown
from nightshift_perf.traces.names import Kind
from nightshift_perf.traces.timeline import Floats
from nightshift_perf.traces.trace import DeviceWork, Rows

MOST = 0.5  # of the time of kernels that compute
LOW = 25.0  # per cent of a multiprocessor's warps
STEPS, THIRD = 6, 3  # steps from which on the last third is compared with the first
LONGER, NEARLY_ALL = 1.05, 0.8  # times as long, and the share of the kernels' time of which that is true
CLOCK = re.compile("clock", re.IGNORECASE)


@dataclass(frozen=True)
class Share:
    """Kernels that do not use all of the GPU: their share of the time of those that compute, and what they leave."""

    share: float
    lost: float = 0.0  # microseconds


@dataclass(frozen=True)
class Slowdown:
    """Microseconds that are lost to lower clocks, and a clause about what shows it."""

    lost: float
    evidence: str


def computing(one: Breakdown) -> Rows:
    """Return the kernels that compute in the window of a GPU."""
    work = one.trace.on(one.device)
    rows = work[(work["kind"] == DeviceWork.KERNEL) & ~communication.communicates(one.trace, work)]
    return np.asarray(rows[(rows["start"] >= one.window[0]) & (rows["start"] < one.window[1])])


def small_grids(one: Breakdown) -> Share | None:
    """Return the kernels with fewer blocks than the GPU has multiprocessors; None where they take less than half.

    What is lost is the time in which multiprocessors have no block, as a share of them.
    """
    rows = computing(one)
    times, blocks = rows["end"] - rows["start"], rows["blocks"].astype(np.float64)
    is_small = (blocks >= 0) & (blocks < 1)
    whole = float(times.sum())
    if not whole or times[is_small].sum() <= MOST * whole:
        return None
    empty = float((times * (1 - blocks))[is_small].sum()) / whole
    return Share(float(times[is_small].sum()) / whole, empty * one.compute)


def low_occupancy(one: Breakdown) -> Share | None:
    """Return the kernels beside matrix products that fill the GPU with few warps; None where they take under half.

    Matrix products need few warps by design.
    """
    rows = computing(one)
    is_other = np.array([names.classify(name).kind is Kind.OTHER for name in one.trace.names], dtype=bool)[rows["name"]]
    is_low = is_other & (rows["blocks"] >= 1) & (rows["occupancy"] > 0) & (rows["occupancy"] < LOW)
    times = rows["end"] - rows["start"]
    share = float(times[is_low].sum()) / max(float(times.sum()), 1e-9)
    return Share(share) if share > MOST else None


def slowdown(one: Breakdown) -> Slowdown | None:
    """Return what lower clocks cost: by the clocks that were sampled, or by kernels that take longer than before."""
    return _by_clocks(one) or _by_kernels(one)


def _by_clocks(one: Breakdown) -> Slowdown | None:
    """Compare the clock with the highest one, both while the GPU works."""
    work = timeline.union(timeline.spans(one.trace.on(one.device)))
    counters = one.trace.counters.items()
    clocks = [values for (device, name), values in counters if device == one.device and CLOCK.search(name)]
    if not clocks or not len(work):
        return None
    at, values = clocks[0].T
    before = np.searchsorted(work[:, 0], at, side="right") - 1
    busy = values[(before >= 0) & (at <= work[before, 1])]
    if not len(busy) or busy.max() <= 0:
        return None
    share = 1 - float(busy.mean() / busy.max())
    evidence = f"while it works its clock is {100 * share:.0f} % below the highest in the mean{_other_counters(one)}"
    return Slowdown(share * one.busy, evidence)


def _other_counters(one: Breakdown) -> str:
    listed = [
        f"{name} {values[:, 1].mean():,.4g}"
        for (device, name), values in one.trace.counters.items()
        if device == one.device and not CLOCK.search(name)
    ]
    return f" (means: {', '.join(listed)})" if listed else ""


def _by_kernels(one: Breakdown) -> Slowdown | None:
    """Compare the kernels of the last third of the steps with the same ones of the first third."""
    starts = one.trace.steps[:, 0]
    if len(starts) < STEPS:
        return None
    rows, third = computing(one), len(starts) // THIRD
    steps = np.searchsorted(starts, rows["start"], side="right") - 1
    first, last = (_means(rows[(steps >= low) & (steps < low + third)]) for low in (0, len(starts) - third))
    both = sorted(first.keys() & last.keys())
    if not both:
        return None
    weights, ratios = np.array([[sum(last[name]), np.mean(last[name]) / np.mean(first[name])] for name in both]).T
    if weights[ratios > LONGER].sum() < NEARLY_ALL * weights.sum():
        return None
    ratio = float(np.average(ratios, weights=weights))
    evidence = f"the same kernels take {ratio:.3g} times as long in the last third of the steps as in the first"
    return Slowdown(_lost(rows, first), evidence)


def _means(rows: Rows) -> dict[int, list[float]]:
    times: dict[int, list[float]] = defaultdict(list)
    for name, took in zip(rows["name"].tolist(), (rows["end"] - rows["start"]).tolist(), strict=True):
        times[name].append(took)
    return dict(times)


def _lost(rows: Rows, first: dict[int, list[float]]) -> float:
    """Return how much longer all kernels take than those of the first third."""
    usual: Floats = np.array([np.mean(first[name]) if name in first else np.inf for name in rows["name"].tolist()])
    return float(np.maximum(rows["end"] - rows["start"] - usual, 0).sum())
