"""Several processes in one recording: whose a GPU's work is, and a trace for each process and device.

What a process launches bears the number of the call that launched it. Numbers are a process's own: those of two
processes are often the same, so what a call launches also begins after it, and a GPU that one process alone could have
launched all work of is that process's.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from nightshift_perf.traces import steps
from nightshift_perf.traces.timeline import Floats, Mask
from nightshift_perf.traces.trace import Host, Rows, Trace

Indices = npt.NDArray[np.intp]

NEARLY = 0.98  # share of a GPU's work: the rest was launched before the recording began
EARLIER = 1.0  # microseconds that work may seem to start before its call: times are rounded
SHIFT = 32  # bits of a process's own numbers


def assign(work: Rows, host: Rows, names: Sequence[str], lanes: Sequence[tuple[str, int]]) -> None:
    """Fill in which process each row of work belongs to, and number causes and operations across processes.

    Args:
        work: `process` is -1 where it is not known.
        host: in order of start.
        names: of the processes.
        lanes: as what the recording shows a GPU, and its number; `lane` is an index.
    """
    _merge(host)
    for lane, (label, device) in enumerate(lanes):
        is_renamed = label != str(device)  # PyTorch shows a GPU under its number
        if is_renamed and label in names:
            work["process"][work["lane"] == lane] = names.index(label)
    launching = _launching(host)
    callers = np.unique(host["process"][launching]).tolist()
    if len(callers) > 1 and np.any(work["process"] < 0):
        _by_calls(work, host[launching], callers)
    work["process"][work["process"] < 0] = _main(host)
    for rows in (work, host) if len(names) > 1 else ():
        for column in ("cause", "operation"):
            rows[column] += np.where(rows[column] >= 0, rows["process"].astype(np.int64) << SHIFT, 0)


def number(process: int, own: int) -> int:
    """Return a process's own number as one that no other process has; process 0 keeps its numbers."""
    return (process << SHIFT) + own


def split(trace: Trace) -> list[Trace]:
    """Return a trace for each process and device, or for each process where no device does anything."""
    pairs = np.unique(trace.work[["process", "device"]]).tolist()
    several = len({process for process, _ in pairs}) > 1
    if not pairs:
        counts = np.bincount(trace.host["process"], minlength=1)
        return [
            _part(trace, process, None, several) for process in np.argsort(-counts, kind="stable") if counts[process]
        ]
    return [_part(trace, process, device, several) for process, device in pairs]


def _part(trace: Trace, process: int, device: int | None, several: bool) -> Trace:
    mine = (trace.work["process"] == process) & (trace.work["device"] == device)
    work = trace.work if mine.all() else trace.work[mine]
    is_shared = len(trace.processes) > 1
    host = trace.host[trace.host["process"] == process] if is_shared else trace.host
    memory = trace.memory[trace.memory["process"] == process] if is_shared else trace.memory
    launching = np.unique(trace.host["process"][_launching(trace.host)]).tolist()
    own = [mark for mark in trace.marks if mark.process == process]
    marks = trace.marks if not own and launching == [process] else own  # a parent marks the steps of its only worker
    chosen = steps.choose(marks, _launches(work, host) if len({mark.thread for mark in marks}) > 1 else {})
    origin = replace(
        trace.origin,
        process=trace.processes[process] if several else "",
        rank=None if several else trace.origin.rank,
        devices=trace.gpus.get(process, trace.origin.devices),
    )
    return replace(
        trace,
        origin=origin,
        work=work,
        host=host,
        memory=memory[memory["device"] == device] if device is not None else memory,
        steps=_follow_gpu(chosen, work, host),
        marks=marks,
    )


def _follow_gpu(marked: Floats, work: Rows, host: Rows) -> Floats:
    """Return the steps as the GPU does them: see `steps.follow_gpu`.

    Work whose call was not recorded was launched before the recording where it precedes all other work, else when it
    began.
    """
    if not len(marked) or not len(work):
        return marked
    calls = host[_launching(host)]
    launches = _starts(work, calls) if len(calls) else np.full(len(work), np.inf)
    is_known = np.isfinite(launches)
    if not is_known.any():
        return steps.spread(marked, float(work["end"].max()))
    first = work["start"][is_known].min()
    launches = np.where(is_known, launches, np.where(work["start"] < first, -np.inf, work["start"]))
    order = np.argsort(launches, kind="stable")
    return steps.follow_gpu(marked, launches[order], work["end"][order])


def _launches(work: Rows, host: Rows) -> dict[int, int]:
    """Return how much of some work each thread launched."""
    calls = host[_launching(host)]
    threads, counts = np.unique(calls["thread"][np.isin(calls["cause"], work["cause"])], return_counts=True)
    return dict(zip(threads.tolist(), counts.tolist(), strict=True))


def _launching(host: Rows) -> Mask:
    return np.asarray((host["kind"] == Host.CALL) & (host["cause"] >= 0))


def _merge(host: Rows) -> None:
    """Make one process of two labels, when all calls bear one of them and all else the other."""
    is_call = host["kind"] == Host.CALL
    calls, others = np.unique(host["process"][is_call]), np.unique(host["process"][~is_call])
    if len(calls) == 1 and len(others) == 1:
        host["process"] = others[0]


def _main(host: Rows) -> int:
    """Return the process that calls most, or else does most."""
    launching = _launching(host)
    owners = host["process"][launching] if launching.any() else host["process"]
    return int(np.argmax(np.bincount(owners))) if len(owners) else 0


def _by_calls(work: Rows, calls: Rows, callers: Sequence[int]) -> None:
    ties: list[tuple[Indices, tuple[int, ...]]] = []
    for rows in _lanes(work):
        starts = np.stack([_starts(work[rows], calls[calls["process"] == caller]) for caller in callers])
        could = starts <= work["start"][rows] + EARLIER
        scores, total = could.sum(axis=1), int(could.any(axis=0).sum())
        if not total:
            continue
        if scores.max() < NEARLY * total or _are_pairs(work[rows], starts):
            work["process"][rows] = _match_rows(work[rows], starts, callers)
            continue
        best = [caller for caller, score in zip(callers, scores, strict=True) if score >= NEARLY * scores.max()]
        if len(best) == 1:
            work["process"][rows] = best[0]
        else:
            ties.append((rows, tuple(best)))
    _break_ties(work, ties)


def _lanes(work: Rows) -> Iterator[Indices]:
    for lane in np.unique(work["lane"]):
        rows = np.flatnonzero((work["lane"] == lane) & (work["process"] < 0))
        if len(rows):
            yield rows


def _starts(work: Rows, calls: Rows) -> Floats:
    """Return when a process's call of the same number began, infinity where it has none."""
    causes, firsts = np.unique(calls["cause"], return_index=True)
    positions = np.minimum(np.searchsorted(causes, work["cause"]), len(causes) - 1)
    return np.where(causes[positions] == work["cause"], calls["start"][firsts[positions]], np.inf)


def _are_pairs(work: Rows, starts: Floats) -> bool:
    """Return whether as much work bears a number as there are processes with a call of it."""
    _, groups, counts = np.unique(work["cause"], return_inverse=True, return_counts=True)
    callers = np.isfinite(starts).sum(axis=0)
    return bool(np.mean((counts[groups] == callers) & (callers > 1)) > NEARLY / 2)


def _match_rows(work: Rows, starts: Floats, callers: Sequence[int]) -> npt.NDArray[np.int64]:
    """Return the process of each row: of calls of one number the first launches first, or else the latest one did."""
    order = np.lexsort([work["start"], work["cause"]])
    causes = work["cause"][order]
    firsts = np.searchsorted(causes, causes)
    turns = np.empty(len(work), dtype=np.intp)
    turns[order] = np.arange(len(work)) - firsts
    _, groups, counts = np.unique(work["cause"], return_inverse=True, return_counts=True)
    in_turn = counts[groups] == np.isfinite(starts).sum(axis=0)
    before = np.where(starts <= work["start"] + EARLIER, starts, -np.inf)
    by_turn = np.argsort(starts, axis=0)[np.minimum(turns, len(callers) - 1), np.arange(len(work))]
    chosen = np.where(in_turn, by_turn, np.argmax(before, axis=0))
    known = np.isfinite(starts).any(axis=0)
    return np.where(known, np.asarray(callers)[chosen], -1)


def _break_ties(work: Rows, ties: Sequence[tuple[Indices, tuple[int, ...]]]) -> None:
    """Give GPUs that several processes could have used to those in order that have none yet, least choice first."""
    for candidates in sorted({best for _, best in ties}, key=len):
        lanes = [rows for rows, best in ties if best == candidates]
        used = np.unique(work["process"])
        free = [caller for caller in candidates if caller not in used] or list(candidates)
        for turn, rows in enumerate(lanes):
            work["process"][rows] = free[turn * len(free) // len(lanes)]
