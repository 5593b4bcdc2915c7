"""Why a GPU is idle: by what the host does in the meantime.

A moment without work belongs, in this order, to the GPU itself, which waits for another stream or between two kernels,
when what comes next was launched before the GPU ran dry, or while the host is blocked although it was launched; to the
data loader that the host waits for; to the blocking call during which the GPU ran dry (a copy from pageable memory, a
synchronization, an allocation), until the host has caught up, or that lasts at that moment; else to the host. Its own
gaps are short where it launches without a pause but not fast enough, and long where it does something else.
"""

from enum import StrEnum

import numpy as np

from nightshift_perf.traces import timeline
from nightshift_perf.traces.timeline import Floats, Mask
from nightshift_perf.traces.trace import DeviceWork, Host, Rows, Trace


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
CATCHING_UP = 5000.0  # microseconds that the host may take after it was blocked, until the GPU has work again
SYNCHRONIZING = ("synchronize", "urqueuefinish", "ureventwait", "piqueuefinish", "pieventswait")  # CUDA, HIP, XPU
BLOCKING_COPIES = ("memcpywithstream",)  # HIP's call, in which the host waits whatever the memory
ALLOCATING = (
    "cudamalloc", "cudafree", "cudahostalloc", "cumemalloc", "cumemcreate", "cumemmap",
    "hipmalloc", "hipfree", "hiphostmalloc", "zememalloc", "zememfree",
)  # fmt: skip
NEXT_BATCH = "nightshift.next_batch"  # of our trainer
LOADING = ("enumerate(dataloader)", "dataloader.__next__", NEXT_BATCH)


def loading(trace: Trace) -> Floats:
    """Return when the host waits for its data loader, as `enumerate(DataLoader)` or our trainer marks it."""
    return timeline.union(timeline.spans(trace.host, _ranges(trace) & trace.match_names(trace.host, *LOADING)))


def pageable(trace: Trace, rows: Rows) -> Mask:
    """Return which rows of work copy from memory of the host that is not pinned."""
    return np.asarray((rows["kind"] == DeviceWork.COPY) & trace.match_names(rows, "pageable -> device"))


def migrating(trace: Trace, rows: Rows) -> Mask:
    """Return which rows of work move pages of unified memory."""
    return np.asarray((rows["kind"] == DeviceWork.COPY) & trace.match_names(rows, "unified memory", "managed"))


def blocking(trace: Trace) -> dict[Cause, Floats]:
    """Return when the host is in calls that block it, by cause."""
    calls = trace.host[trace.host["kind"] == Host.CALL]
    copies, back = (trace.work[_copies(trace, text)] for text in ("pageable -> device", "device -> pageable"))
    waits = trace.match_names(calls, *SYNCHRONIZING, *BLOCKING_COPIES) | np.isin(
        calls["cause"], _drop_unknown(back["cause"])
    )
    masks = {
        Cause.COPY: np.isin(calls["cause"], _drop_unknown(copies["cause"])),
        Cause.SYNC: waits,
        Cause.ALLOCATION: trace.match_names(calls, *ALLOCATING),
    }
    return {cause: timeline.union(timeline.spans(calls, mask)) for cause, mask in masks.items()}


def causes(trace: Trace, device: int) -> dict[Cause, Floats]:
    """Return the idle moments of a GPU in the trace's window, by cause; together they are all idle moments."""
    work = trace.on(device)
    idle = timeline.gaps(timeline.union(timeline.spans(work)), trace.window)
    calls = blocking(trace)
    ready = _find_launches(trace, work, idle)
    is_pending = idle[:, 1] - np.maximum(ready, idle[:, 0]) >= LONG
    pending = np.column_stack([np.maximum(ready, idle[:, 0]), idle[:, 1]])[is_pending]
    own = np.concatenate([idle[ready <= idle[:, 0]], timeline.common(pending, calls[Cause.SYNC])])
    moments = {Cause.DEVICE: timeline.union(own)}
    left = timeline.without(idle, moments[Cause.DEVICE])
    moments[Cause.DATA] = timeline.common(left, loading(trace))
    left = timeline.without(left, moments[Cause.DATA])
    for cause, spans in calls.items():
        moments[cause] = timeline.union(np.concatenate([_dry(left, spans), timeline.common(left, spans)]))
        left = timeline.without(left, moments[cause])
    is_long = left[:, 1] - left[:, 0] >= LONG
    return moments | {Cause.LAUNCH: left[~is_long], Cause.PAUSE: left[is_long]}


def _dry(idle: Floats, calls: Floats) -> Floats:
    """Return the gaps that start inside a call, until the host has caught up: a long pause after it is its own."""
    before = np.searchsorted(calls[:, 0], idle[:, 0], side="right") - 1
    ends = np.r_[calls[:, 1], -np.inf][before]
    inside = (before >= 0) & (idle[:, 0] <= ends)
    starts, stops = idle[inside, 0], idle[inside, 1]
    ends = np.minimum(ends[inside], stops)
    return np.column_stack([starts, np.where(stops - ends < CATCHING_UP, stops, ends)])


def _find_launches(trace: Trace, work: Rows, idle: Floats) -> Floats:
    """Return when the work that ends each gap had been launched; infinite where nothing tells or nothing ends it."""
    launching = (trace.host["kind"] == Host.CALL) & (trace.host["cause"] >= 0)
    if not len(work) or not launching.any():
        return np.full(len(idle), np.inf)
    order = np.argsort(trace.host["cause"][launching], kind="stable")
    causes, ends = (trace.host[column][launching][order] for column in ("cause", "end"))
    positions = np.searchsorted(work["start"], idle[:, 1] - 1e-3)  # times are rounded
    following = work["cause"][np.minimum(positions, len(work) - 1)]
    launches = np.minimum(np.searchsorted(causes, following), len(causes) - 1)
    is_known = (causes[launches] == following) & (positions < len(work))
    return np.asarray(np.where(is_known, ends[launches], np.inf))


def _ranges(trace: Trace) -> Mask:
    return np.asarray(trace.host["kind"] == Host.RANGE, dtype=np.bool_)


def _copies(trace: Trace, text: str) -> Mask:
    return np.asarray((trace.work["kind"] == DeviceWork.COPY) & trace.match_names(trace.work, text))


def _drop_unknown(causes: Floats) -> Floats:
    return causes[causes >= 0]
