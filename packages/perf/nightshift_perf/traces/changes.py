"""A training before a change and after it: how much faster a step is, and by which parts and operations.

Steps are paired in their order: the first that counts of the one with the first of the other. What a part or an
operation saves is a mean over pairs, so the parts add up to the step; its interval is a bootstrap of the pairs, as if
they were independent.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nightshift.contracts.profile import Finding, TraceProfile
from nightshift.runtime.errors import UserError
from nightshift.stats import bootstrap
from nightshift_perf.contracts import FindingChange, TimeChange, TraceChanges
from nightshift_perf.traces import analysis, kernels, names
from nightshift_perf.traces.analysis import Known, Measured
from nightshift_perf.traces.breakdown import TraceWindow
from nightshift_perf.traces.timeline import Floats
from nightshift_perf.traces.trace import DeviceWork, Trace

Indices = npt.NDArray[np.int32]

TOP = 10
FEW = 5  # pairs of steps, below which an interval is hardly one


@dataclass(frozen=True)
class TrainingSide:
    """One of the two trainings: its profile, and the steps of its slowest GPU or of its process."""

    profile: TraceProfile
    window: TraceWindow

    @classmethod
    def from_measured(cls, measured: Measured, known: Known) -> "TrainingSide":
        """Return a side.

        Raises:
            UserError: when no step is marked.
        """
        profile = analysis.describe(measured, known)
        if not len(measured.worst.trace.steps):
            raise UserError(
                f"{', '.join(profile.sources)}: no step is marked, so there is nothing to pair; call profiler.step() "
                "after each batch, or put each in a range 'step 1', ..."
            )
        return cls(profile, measured.worst)

    @property
    def times(self) -> Floats:
        """Of each step, microseconds (steps,)."""
        return self.window.trace.step_times

    def parts(self) -> dict[str, Floats]:
        """Return microseconds of each part of each step, (steps,)."""
        return {name: self.window.per_step(moments) for name, moments in self.window.parts.items()}

    def operations(self, on_gpu: bool) -> dict[str, Floats]:
        """Return microseconds of each kernel, or of each operation's own time, in each step, (steps,)."""
        trace = self.window.trace
        if on_gpu:
            rows = trace.work[trace.work["kind"] == DeviceWork.KERNEL]
            return _by_step(trace, rows["start"], rows["name"], rows["end"] - rows["start"])
        rows = kernels.find_operations(trace)
        return _by_step(trace, rows["start"], rows["name"], kernels.own_times(rows))


def compare(before: Measured, after: Measured, known: Known) -> TraceChanges:
    """Return what became faster or slower, most first.

    Raises:
        UserError: when no step is marked in one of them.
    """
    old, new = TrainingSide.from_measured(before, known), TrainingSide.from_measured(after, known)
    pairs = min(len(old.times), len(new.times))
    on_gpu = all(side.profile.gpu_busy_pct is not None for side in (old, new))
    step = change("step", old.times[:pairs], new.times[:pairs])
    return TraceChanges(
        before=old.profile.sources,
        after=new.profile.sources,
        pairs=pairs,
        step=step,
        verdict=_judge(step),
        parts=_changes(old.parts(), new.parts(), pairs),
        operations=_changes(old.operations(on_gpu), new.operations(on_gpu), pairs)[:TOP],
        findings=_findings(old.profile.diagnosis, new.profile.diagnosis),
        caveats=[*_caveats(pairs), *_name_side("before", old.profile), *_name_side("after", new.profile)],
    )


def change(name: str, before: Floats, after: Floats) -> TimeChange:
    """Return how much a time of each step has changed; both are microseconds of the paired steps, (pairs,)."""
    saved = (before - after) / 1000
    interval = None
    if len(saved) > 1:
        resamples = saved[bootstrap.draw_rows(len(saved))].mean(axis=1)
        drawn = bootstrap.BootstrapInterval.from_resamples(resamples)
        interval = (round(drawn.low, 4), round(drawn.high, 4))
    return TimeChange(
        name=name,
        before_ms=round(float(before.mean()) / 1000, 4),
        after_ms=round(float(after.mean()) / 1000, 4),
        saved_ms=round(float(saved.mean()), 4),
        interval_ms=interval,
    )


def _changes(before: Mapping[str, Floats], after: Mapping[str, Floats], pairs: int) -> list[TimeChange]:
    """Return the changes of what takes any time, the largest first."""
    nothing = np.zeros(pairs)
    both = [
        change(name, before.get(name, nothing)[:pairs], after.get(name, nothing)[:pairs])
        for name in dict.fromkeys([*before, *after])
    ]
    return sorted((one for one in both if one.before_ms or one.after_ms), key=lambda one: -abs(one.saved_ms))


def _by_step(trace: Trace, starts: Floats, name_numbers: Indices, times: Floats) -> dict[str, Floats]:
    """Return the times of each short name in each step in which they start, (steps,)."""
    shorts = [names.short(name) for name in trace.names]
    listed = {name: number for number, name in enumerate(dict.fromkeys(shorts))}
    positions = np.array([listed[short] for short in shorts], dtype=np.int64)[name_numbers]
    steps = np.searchsorted(trace.steps[:, 0], starts, side="right") - 1
    inside = (steps >= 0) & (starts < trace.window[1])
    cells = positions[inside] * len(trace.steps) + steps[inside]
    sums = np.bincount(cells, weights=times[inside], minlength=len(listed) * len(trace.steps))
    table = sums.reshape(len(listed), len(trace.steps))
    return {name: np.asarray(row, dtype=np.float64) for name, row in zip(listed, table, strict=True) if row.any()}


def _judge(step: TimeChange) -> str:
    low, high = step.interval_ms or (0.0, 0.0)
    return "faster" if low > 0 else "slower" if high < 0 else "undecided"


def _findings(before: Sequence[Finding], after: Sequence[Finding]) -> list[FindingChange]:
    """Return what the findings with a figure cost before and after."""
    costs = [{one.title: one for one in findings if one.won_ms is not None} for findings in (before, after)]
    return [
        FindingChange(
            title=title,
            before_ms=costs[0][title].won_ms or 0.0 if title in costs[0] else 0.0,
            after_ms=costs[1][title].won_ms or 0.0 if title in costs[1] else 0.0,
            stated_ms=costs[0][title].gain_ms if title in costs[0] else None,
        )
        for title in dict.fromkeys([*costs[0], *costs[1]])
    ]


def _caveats(pairs: int) -> list[str]:
    if pairs == 1:
        return ["There is one pair of steps, and so no interval: record more steps."]
    return [f"There are {pairs} pairs of steps, too few for a good interval."] if pairs < FEW else []


def _name_side(name: str, profile: TraceProfile) -> list[str]:
    return [f"{name}: {caveat}" for caveat in profile.caveats]
