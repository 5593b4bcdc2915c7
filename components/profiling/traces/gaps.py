"""Why a GPU is idle: by what the host does in the meantime.

A moment without work belongs, in this order, to the data loader that the host waits for; to the blocking call during
which the GPU ran dry (a copy from pageable memory, a synchronization, an allocation), or that lasts at that moment; to
the host, when what comes next was launched only after the GPU ran dry; else to the GPU itself, which waits for another
stream or between two kernels. The host's own gaps are short where it launches without a pause but not fast enough, and
long where it does something else.
"""

from enum import StrEnum

import numpy as np

from components.profiling.traces import timeline
from components.profiling.traces.timeline import Floats, Mask
from components.profiling.traces.trace import Host, Rows, Trace, Work


class Cause(StrEnum):
    """Why a GPU is idle."""

    DATA = "data loader"
    COPY = "pageable copies"
    SYNC = "synchronization"
    ALLOCATION = "allocation"
    LAUNCH = "launches"
    PAUSE = "pauses of the host"
    DEVICE = "waits of the GPU"


LONG = 1000.0  # microseconds: a launch with all that PyTorch does before it takes a tenth of that
SYNCHRONIZING = ("synchronize",)
ALLOCATING = ("cudamalloc", "cudafree", "cudahostalloc", "cumemalloc", "cumemcreate", "cumemmap")
LOADING = ("enumerate(dataloader)", "dataloader.__next__")


def loading(trace: Trace) -> Floats:
    """Return when the host waits for its data loader, as `enumerate(DataLoader)` marks it."""
    return timeline.union(timeline.spans(trace.host[_ranges(trace) & trace.named(trace.host, *LOADING)]))


def pageable(trace: Trace, rows: Rows) -> Mask:
    """Return which rows of work copy from memory of the host that is not pinned."""
    return np.asarray((rows["kind"] == Work.COPY) & trace.named(rows, "pageable -> device"))


def blocking(trace: Trace) -> dict[Cause, Floats]:
    """Return when the host is in calls that block it, by cause."""
    calls = trace.host[trace.host["kind"] == Host.CALL]
    copies, back = (trace.work[_copies(trace, text)] for text in ("pageable -> device", "device -> pageable"))
    waits = trace.named(calls, *SYNCHRONIZING) | np.isin(calls["cause"], _known(back["cause"]))
    found = {
        Cause.COPY: np.isin(calls["cause"], _known(copies["cause"])),
        Cause.SYNC: waits,
        Cause.ALLOCATION: trace.named(calls, *ALLOCATING),
    }
    return {cause: timeline.union(timeline.spans(calls[mask])) for cause, mask in found.items()}


def causes(trace: Trace, device: int) -> dict[Cause, Floats]:
    """Return the idle moments of a GPU in the trace's window, by cause; together they are all idle moments."""
    work = trace.work[trace.work["device"] == device]
    idle = timeline.gaps(timeline.union(timeline.spans(work)), trace.window)
    waited = timeline.common(idle, loading(trace))
    left = timeline.without(idle, waited)
    found = {Cause.DATA: waited}
    for cause, calls in blocking(trace).items():
        dry = _starts_in(left, calls)
        found[cause] = timeline.union(np.concatenate([left[dry], timeline.common(left[~dry], calls)]))
        left = timeline.without(left, found[cause])
    late, is_long = _launched_late(trace, work, left), left[:, 1] - left[:, 0] >= LONG
    return found | {
        Cause.LAUNCH: left[late & ~is_long],
        Cause.PAUSE: left[late & is_long],
        Cause.DEVICE: left[~late],
    }


def _starts_in(idle: Floats, calls: Floats) -> Mask:
    """Return which gaps start inside a call."""
    before = np.searchsorted(calls[:, 0], idle[:, 0], side="right") - 1
    ends = np.r_[calls[:, 1], -np.inf][before]
    return np.asarray((before >= 0) & (idle[:, 0] <= ends))


def _launched_late(trace: Trace, work: Rows, idle: Floats) -> Mask:
    """Return for which gaps the work that ends them was launched after they began, or nothing ends them."""
    calls = trace.host[(trace.host["kind"] == Host.CALL) & (trace.host["cause"] >= 0)]
    if not len(work) or not len(calls):
        return np.ones(len(idle), dtype=bool)
    calls = calls[np.argsort(calls["cause"], kind="stable")]
    places = np.searchsorted(work["start"], idle[:, 1] - 1e-3)  # times are rounded
    following = work[np.minimum(places, len(work) - 1)]
    launches = calls[np.minimum(np.searchsorted(calls["cause"], following["cause"]), len(calls) - 1)]
    was_ready = (launches["cause"] == following["cause"]) & (launches["start"] < idle[:, 0])
    return np.asarray(~was_ready | (places == len(work)))


def _ranges(trace: Trace) -> Mask:
    return np.asarray(trace.host["kind"] == Host.RANGE, dtype=np.bool_)


def _copies(trace: Trace, text: str) -> Mask:
    return np.asarray((trace.work["kind"] == Work.COPY) & trace.named(trace.work, text))


def _known(causes: Floats) -> Floats:
    return causes[causes >= 0]
