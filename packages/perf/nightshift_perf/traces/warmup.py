"""First steps that take far longer than the others: what they wait for, once, is no step's."""

from dataclasses import replace

import numpy as np

from nightshift_perf.traces import kernels, timeline
from nightshift_perf.traces.timeline import Floats
from nightshift_perf.traces.trace import Trace

LONGER = 2.0  # times the median of all later steps
COMPILING = ("compile", "dynamo", "inductor", "triton", "autotun")


def leave_out(trace: Trace) -> Trace:
    """Return a trace without its first steps where these take far longer than the others; a caveat names them.

    Half of the steps are kept at least, and two.
    """
    times = trace.step_times
    count = _count(times)
    if not count:
        return trace
    first, after = trace.steps[0, 0], trace.steps[count, 0]
    return replace(
        trace,
        work=trace.work[trace.work["end"] > after],
        host=trace.host[trace.host["end"] > after],
        steps=trace.steps[count:],
        caveats=[*trace.caveats, _describe(trace, times[:count], float(np.median(times[count:])), (first, after))],
    )


def _count(times: Floats) -> int:
    most = max(min(len(times) // 2, len(times) - 2), 0)
    is_long = (times[number] > LONGER * np.median(times[number + 1 :]) for number in range(most))
    return next((number for number, long in enumerate(is_long) if not long), most)


def _describe(trace: Trace, times: Floats, usual: float, window: tuple[float, float]) -> str:
    steps = "Step 1 takes" if len(times) == 1 else f"Steps 1 to {len(times)} take"
    listed = ", ".join(f"{took / 1000:,.4g}" for took in times)
    return (
        f"{steps} {listed} ms, the others {usual / 1000:,.4g} ms in the median{_activity(trace, window)}; all "
        "figures but the times of steps leave out the first."
    )


def _activity(trace: Trace, window: tuple[float, float]) -> str:
    inside = (trace.host["end"] > window[0]) & (trace.host["start"] < window[1])
    if trace.match_names(trace.host[inside], *COMPILING).any():
        return ", since torch.compile compiles there"
    doing = kernels.during(trace, timeline.clip(np.array([window]), window))
    return f"; the host is mostly in {doing} there" if doing else ""
