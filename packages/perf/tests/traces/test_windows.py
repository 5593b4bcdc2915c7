"""Which time counts: that of the GPU where the host runs ahead of it, and of no step that takes long just once."""

import pytest

from nightshift_perf.traces.analysis import Known, analyze
from packages.perf.tests.traces.samples import Events

A100 = {"deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-80GB"}]}
STEP = 2_500  # microseconds of the GPU


def run_ahead(steps=6, backlog=0, calls=True):
    """The host takes 1 ms for each step, the GPU `STEP`; before them it has a backlog, launched earlier."""
    events = Events().steps(*((1000 * number, 1000 * number + 1000) for number in range(steps)))
    if backlog:
        events.kernel("sgemm", 0, backlog, launched=(-900, 5))
    for number in range(steps):
        launched = (1000 * number + 10, 5) if calls else None
        events.kernel("sgemm", backlog + STEP * number + 20, STEP, launched=launched)
    return events


@pytest.mark.parametrize(("backlog", "calls"), [(0, True), (7_000, True), (0, False)])
def test_a_host_that_runs_ahead_is_waited_for(backlog, calls, tmp_path):
    profile = analyze([run_ahead(6, backlog, calls).trace(tmp_path, **A100)], Known(25e9))
    assert profile.step_ms == pytest.approx(2.5, rel=0.01)
    assert profile.gpu_busy_pct == pytest.approx(100, abs=0.5)
    assert profile.mfu_pct == pytest.approx(100 * 25e9 / 2.5e-3 / 19.5e12, rel=0.01)
    assert sum(part.pct for part in profile.breakdown) == pytest.approx(100)


def test_work_after_the_steps_is_not_theirs(tmp_path):
    events = Events().steps((0, 1000), (1000, 2000))
    events.kernel("sgemm", 10, 900, launched=(5, 3)).kernel("sgemm", 1010, 900, launched=(1005, 3))
    events.kernel("evaluation", 2500, 9000, launched=(2400, 5))
    assert analyze([events.trace(tmp_path)], Known()).step_ms == 1.0


def test_an_mfu_over_100_percent_is_none_and_says_why(tmp_path):
    profile = analyze([run_ahead().trace(tmp_path, **A100)], Known(1e12))
    assert profile.mfu_pct is None
    assert any("--precision" in caveat and "a100-80gb" in caveat for caveat in profile.caveats)


@pytest.mark.parametrize(
    ("doing", "named"), [("CompiledFxGraph compile", "torch.compile compiles"), ("load_vocabulary", "load_vocabulary")]
)
def test_a_first_step_that_takes_long_is_named_and_left_out(doing, named, tmp_path):
    events = Events().steps((0, 90_000), *((90_000 + 1000 * n, 91_000 + 1000 * n) for n in range(5)))
    events.add("range", doing, 5, 89_000).kernel("autotuned", 89_100, 800, launched=(89_050, 5))
    for number in range(5):
        events.kernel("sgemm", 90_010 + 1000 * number, 900, launched=(90_005 + 1000 * number, 3))
    profile = analyze([events.trace(tmp_path)], Known())
    assert (profile.step_ms, profile.gpu_busy_pct, len(profile.step_times_ms)) == (1.0, 90, 6)
    assert [kernel.name for kernel in profile.top_kernels] == ["sgemm"]
    (caveat,) = (caveat for caveat in profile.caveats if caveat.startswith("Step 1 takes 90"))
    assert named in caveat


def test_a_step_is_the_median_and_what_a_few_cost_is_spread_over_all(tmp_path):
    events = Events().steps((0, 1000), (1000, 2000), (2000, 3000), (3000, 9000))
    for start in (0, 1000, 2000, 3000):
        events.kernel("sgemm", start + 10, 500, launched=(start + 5, 3))
    profile = analyze([events.trace(tmp_path)], Known())
    assert profile.step_ms == 1.0
    assert sum(part.ms for part in profile.breakdown) == pytest.approx(9 / 4)
    assert any("1 ms is the median of a step, 2.25 ms the mean" in caveat for caveat in profile.caveats)
