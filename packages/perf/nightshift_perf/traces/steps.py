"""Which ranges of the host are the steps of a training: those of one thread, one after the other."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nightshift_perf.traces.timeline import NOTHING, Floats

# ProfilerStep#3, step 3, train_step_3, Iteration: 3/100, batch[3], and the same without a number
NAME = re.compile(
    r"(?:\[\w+\])*(?:run_)?(?:profiler|(?:global|train|training)[\s_:-]*)?(?:step|iteration|iter|batch)"
    r"(?:[\s#:_=\[(-]*(?P<number>\d+)(?:\s*/\s*\d+)?[\])]?)?",
    re.IGNORECASE,
)
TOLERANCE = 0.01  # share of a step by which neighbors overlap where times are only rounded


@dataclass(frozen=True)
class StepMark:
    """A range that may be a step; `kind` is its name without the number, which is -1 where it has none."""

    start: float
    end: float
    process: int
    thread: int
    kind: str
    number: int


def parse(name: str) -> tuple[str, int] | None:
    """Return the kind and the number of a step by the name of a range; None of what is no step."""
    match = NAME.fullmatch(name.strip())
    if not match:
        return None
    number = match["number"]
    return (match.string[: match.start("number")].lower(), int(number)) if number else (match.string.lower(), -1)


def choose(marks: Sequence[StepMark], launches: Mapping[int, int]) -> Floats:
    """Return start and end of each step, float64 (n, 2), in order and disjoint.

    Args:
        marks: of one process, in order of start.
        launches: thread -> how much of a GPU's work it launched. The steps are those of the thread that launches most;
            of several kinds on it PyTorch's own, or else the outermost.
    """
    groups: dict[tuple[int, str], list[StepMark]] = defaultdict(list)
    for mark in marks:
        groups[mark.thread, mark.kind].append(mark)
    usable = [group for group in groups.values() if len(group) > 1 or group[0].number >= 0]
    if not usable:
        return NOTHING

    return _in_order(max(usable, key=lambda group: _weight(group, launches)))


def _weight(marks: Sequence[StepMark], launches: Mapping[int, int]) -> tuple[int, bool, float]:
    covered = sum(mark.end - mark.start for mark in marks)
    return launches.get(marks[0].thread, 0), marks[0].kind.startswith("profilerstep"), covered


def _in_order(marks: Sequence[StepMark]) -> Floats:
    """Return the steps of one thread.

    Steps that overlap are those of several ranks under one thread's number where a number comes twice, of which one
    rank is kept; else each begins before the one before it ends, and lasts until the next one begins.
    """
    spans = _spans(marks)
    if _overlap(spans) and len({mark.number for mark in marks}) > 1:
        spans = _spans(list({mark.number: mark for mark in reversed(marks)}.values()))
    if _overlap(spans):
        period = float(np.median(np.diff(spans[:, 0])))
        spans[-1, 1] = min(spans[-1, 1], spans[-1, 0] + period)
    spans[:-1, 1] = np.minimum(spans[:-1, 1], spans[1:, 0])
    return spans


def _spans(marks: Sequence[StepMark]) -> Floats:
    return np.array(sorted((mark.start, mark.end) for mark in marks), dtype=np.float64)


def _overlap(spans: Floats) -> bool:
    return bool(np.any(spans[:-1, 1] - spans[1:, 0] > TOLERANCE * (spans[:-1, 1] - spans[:-1, 0])))


def follow_gpu(steps: Floats, launches: Floats, ends: Floats) -> Floats:
    """Return the steps as the GPU does them, where the host runs ahead of it; else as they are.

    The host may launch a step's work long before the GPU begins it. A step of the GPU lasts until all is done that was
    launched before the host's next step; what was launched a moment before a step is the step's.

    Args:
        steps: of the host.
        launches: when each piece of work was launched, in order, float64 (m,).
        ends: when each is done, float64 (m,).
    """
    if not len(steps) or not len(launches):
        return steps
    early = TOLERANCE * float(np.median(steps[:, 1] - steps[:, 0]))
    edges = np.r_[steps[:, 0], steps[-1, 1]]
    until = np.searchsorted(launches, np.r_[steps[:, 0] - early, steps[-1, 1]])
    bounds = np.maximum(edges, np.r_[-np.inf, np.maximum.accumulate(ends)][until])
    return steps if bounds[-1] <= edges[-1] + early else np.column_stack([bounds[:-1], bounds[1:]])


def spread(steps: Floats, end: float) -> Floats:
    """Return steps of one length that last until the GPU is done, where nothing tells which work is whose."""
    if not len(steps) or end <= steps[-1, 1]:
        return steps
    bounds = np.linspace(steps[0, 0], end, len(steps) + 1)
    return np.column_stack([bounds[:-1], bounds[1:]])
