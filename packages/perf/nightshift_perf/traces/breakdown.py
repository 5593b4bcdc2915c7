"""Where the time of one GPU goes, or of a process without one: every moment of the window belongs to one part."""

from dataclasses import dataclass

import numpy as np

from nightshift.stats import bootstrap
from nightshift_perf.traces import communication, gaps, timeline
from nightshift_perf.traces.gaps import Cause
from nightshift_perf.traces.timeline import Floats, Mask
from nightshift_perf.traces.trace import DeviceWork, Host, Rows, Trace

WORKING = ("Computation", "Exposed communication", "Exposed copies")
IDLE = {
    Cause.DATA: "Idle: data loader",
    Cause.COPY: "Idle: pageable copies",
    Cause.SYNC: "Idle: synchronization",
    Cause.ALLOCATION: "Idle: allocation of memory",
    Cause.LAUNCH: "Idle: short gaps between kernels",
    Cause.PAUSE: "Idle: the host does something else",
    Cause.DEVICE: "Idle: waits on the GPU itself",
}
HOST_PARTS = ("Operations of PyTorch", "Waiting for the data loader", "Python, or what the trace does not show")


@dataclass(frozen=True)
class TraceWindow:
    """The time of a trace that is looked at.

    Attributes:
        trace: what was recorded.
        window: start and end, microseconds.
        loading: microseconds in which the host waits for the data loader, whatever a GPU does.
        parts: the moments of each part of the window.
    """

    trace: Trace
    window: tuple[float, float]
    loading: float
    parts: dict[str, Floats]

    @property
    def length(self) -> float:
        """Of the window; never 0."""
        return max(self.window[1] - self.window[0], 1e-9)

    @property
    def steps(self) -> int:
        """In the window; 1 where none is marked."""
        return max(len(self.trace.steps), 1)

    @property
    def step_ms(self) -> float:
        """Milliseconds from one step to the next, the median; all of the window where no step is marked."""
        times = self.trace.step_times
        return float(np.median(times) if len(times) else self.length) / 1000

    def ms(self, microseconds: float) -> float:
        """Return milliseconds of a step in the mean, which what happens in a few of them is spread over."""
        return microseconds / self.steps / 1000

    def percent(self, microseconds: float) -> float:
        """Return a share of the window."""
        return 100 * microseconds / self.length

    def per_step(self, moments: Floats) -> Floats:
        """Return how much of each step some moments are, float64 (steps,); of all of it where no step is marked."""
        starts, ends = self.trace.steps[:, 0], np.r_[self.trace.steps[1:, 0], self.window[1]]
        spans = np.column_stack([starts, ends]) if len(starts) else np.array([self.window])
        return timeline.measure_overlap(spans, moments)

    def gain(self, moments: Floats) -> tuple[float, float] | None:
        """Return the milliseconds of a step that are won where some idle moments go away, 95 %; None of a single step.

        At the least what is done in them is done beside all else, for which a core has to be free, and the step lasts
        as long as the longer of the two; at the most it takes no time any more. Both are bootstrapped over the steps.
        """
        lost = self.per_step(moments)
        if len(lost) < 2:
            return None
        rows = bootstrap.draw_rows(len(lost))
        beside = np.minimum(lost, self.trace.step_times - lost)
        low = bootstrap.BootstrapInterval.from_resamples(beside[rows].mean(axis=1)).low
        high = bootstrap.BootstrapInterval.from_resamples(lost[rows].mean(axis=1)).high
        return round(max(low, 0.0) / 1000, 3), round(high / 1000, 3)


@dataclass(frozen=True)
class Breakdown(TraceWindow):
    """The window of one GPU; all but `device` are microseconds.

    Attributes:
        device: the GPU.
        busy: with any work.
        compute: with kernels that compute.
        communication: with kernels that move data between ranks.
        exposed_communication: of that, without any that computes at the same time.
        exposed_copies: with copies and nothing else.
        exposed_pageable: of that, from memory that is not pinned.
        exposed_migrations: of that, of pages of unified memory.
        idle: by cause.
    """

    device: int
    busy: float
    compute: float
    communication: float
    exposed_communication: float
    exposed_copies: float
    exposed_pageable: float
    exposed_migrations: float
    idle: dict[Cause, float]


def merge_spans(rows: Rows, mask: Mask, window: tuple[float, float]) -> Floats:
    """Return the moments of a window in which some rows are under way."""
    return timeline.union(timeline.clip(timeline.spans(rows, mask), window))


def measure(trace: Trace, device: int) -> Breakdown:
    """Return where the time of one GPU goes."""
    work, window = trace.on(device), trace.window
    talks = communication.communicates(trace, work)
    compute = merge_spans(work, (work["kind"] == DeviceWork.KERNEL) & ~talks, window)
    talking = merge_spans(work, talks, window)
    kernels = timeline.union(np.concatenate([compute, talking]))
    copies = merge_spans(work, work["kind"] != DeviceWork.KERNEL, window)
    unpinned = merge_spans(work, gaps.pageable(trace, work), window)
    migrations = merge_spans(work, gaps.migrating(trace, work), window)
    working = (compute, timeline.without(talking, compute), timeline.without(copies, kernels))
    idle = gaps.causes(trace, device)
    return Breakdown(
        trace=trace,
        window=window,
        loading=timeline.length(timeline.clip(gaps.loading(trace), window)),
        parts=dict(zip(WORKING, working, strict=True)) | {IDLE[cause]: idle[cause] for cause in Cause},
        device=device,
        busy=timeline.length(timeline.union(np.concatenate([kernels, copies]))),
        compute=timeline.length(compute),
        communication=timeline.length(talking),
        exposed_communication=timeline.length(working[1]),
        exposed_copies=timeline.length(working[2]),
        exposed_pageable=timeline.length(timeline.without(unpinned, kernels)),
        exposed_migrations=timeline.length(timeline.without(migrations, kernels)),
        idle={cause: timeline.length(moments) for cause, moments in idle.items()},
    )


def measure_host(trace: Trace) -> TraceWindow:
    """Return where the time of a process goes that uses no GPU."""
    window = trace.window
    loading = timeline.clip(gaps.loading(trace), window)
    operations = merge_spans(trace.host, trace.host["kind"] == Host.OPERATION, window)
    computing = timeline.without(operations, loading)
    known = timeline.union(np.concatenate([loading, computing]))
    moments = (computing, loading, timeline.gaps(known, window))
    return TraceWindow(trace, window, timeline.length(loading), dict(zip(HOST_PARTS, moments, strict=True)))


def busy_over_time(trace: Trace, device: int, bins: int) -> Floats:
    """Return which share of each of so many equal parts of the window the GPU is busy, float64 (bins,)."""
    work = trace.on(device)
    edges = np.linspace(*trace.window, bins + 1)
    parts = np.column_stack([edges[:-1], edges[1:]])
    busy = timeline.measure_overlap(parts, timeline.union(timeline.spans(work)))
    return np.asarray(busy / max(float(edges[1] - edges[0]), 1e-9))
