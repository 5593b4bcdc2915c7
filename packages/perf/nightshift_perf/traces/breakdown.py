"""Where the time of one GPU goes: every moment of the window belongs to exactly one part."""

from dataclasses import dataclass

import numpy as np

from nightshift_perf.traces import communication, gaps, timeline
from nightshift_perf.traces.gaps import Cause
from nightshift_perf.traces.timeline import Floats, Mask
from nightshift_perf.traces.trace import DeviceWork, Rows, Trace


@dataclass(frozen=True)
class Breakdown:
    """The window of one GPU; all but `window` are microseconds.

    Attributes:
        trace: what was recorded.
        device: the GPU.
        window: start and end.
        busy: with any work.
        compute: with kernels that compute.
        communication: with kernels that move data between ranks.
        exposed_communication: of that, without any that computes at the same time.
        exposed_copies: with copies and nothing else.
        exposed_pageable: of that, from memory that is not pinned.
        loading: the host waits for the data loader, whatever the GPU does.
        idle: by cause.
    """

    trace: Trace
    device: int
    window: tuple[float, float]
    busy: float
    compute: float
    communication: float
    exposed_communication: float
    exposed_copies: float
    exposed_pageable: float
    loading: float
    idle: dict[Cause, float]

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
        """Milliseconds from one step to the next, on average."""
        return self.length / self.steps / 1000

    def ms(self, microseconds: float) -> float:
        """Return milliseconds of each step."""
        return microseconds / self.steps / 1000

    def percent(self, microseconds: float) -> float:
        """Return a share of the window."""
        return 100 * microseconds / self.length


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
    return Breakdown(
        trace=trace,
        device=device,
        window=window,
        busy=timeline.length(timeline.union(np.concatenate([kernels, copies]))),
        compute=timeline.length(compute),
        communication=timeline.length(talking),
        exposed_communication=timeline.length(timeline.without(talking, compute)),
        exposed_copies=timeline.length(timeline.without(copies, kernels)),
        exposed_pageable=timeline.length(timeline.without(unpinned, kernels)),
        loading=timeline.length(timeline.clip(gaps.loading(trace), window)),
        idle={cause: timeline.length(moments) for cause, moments in gaps.causes(trace, device).items()},
    )


def busy_over_time(trace: Trace, device: int, bins: int) -> Floats:
    """Return which share of each of so many equal parts of the window the GPU is busy, float64 (bins,)."""
    work = trace.on(device)
    edges = np.linspace(*trace.window, bins + 1)
    parts = np.column_stack([edges[:-1], edges[1:]])
    busy = timeline.measure_overlap(parts, timeline.union(timeline.spans(work)))
    return np.asarray(busy / max(float(edges[1] - edges[0]), 1e-9))
