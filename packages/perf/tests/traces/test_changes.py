"""A training before and after a change: paired step by step, by part and operation, with an interval."""

import numpy as np
import pytest

from nightshift.runtime.errors import UserError
from nightshift_perf.traces import changes
from nightshift_perf.traces.analysis import Known, measure
from packages.perf.tests.traces.samples import LOADER, Events


def loop(load, matmul, steps=12, seed=0, pace=0.0):
    """A loop on the CPU: each step waits `load` us for its loader, multiplies, and both vary; a slow machine paces."""
    random, events, at = np.random.default_rng(seed), Events(), 0.0
    for number in range(steps):
        waits, computes = load * random.uniform(0.9, 1.1), matmul * random.uniform(0.9, 1.1)
        end = at + waits + computes + pace + 50
        events.steps((at, end)).add("op", LOADER, at, waits).add("op", "aten::mm", at + waits, computes)
        events.events[-3]["name"] = f"ProfilerStep#{number}"
        at = end
    return events


def compare(before, after, tmp_path):
    return changes.compare(*(measure([events.trace(tmp_path)]) for events in (before, after)), Known())


def test_what_is_saved_lies_in_its_interval_and_its_parts_add_up_to_it(tmp_path):
    changes = compare(loop(9000, 4000), loop(1000, 4000, seed=1), tmp_path)
    low, high = changes.step.interval_ms
    assert changes.verdict == "faster"
    assert low < 8.0 < high
    assert sum(part.saved_ms for part in changes.parts) == pytest.approx(changes.step.saved_ms, abs=1e-3)
    assert changes.parts[0].name == "Waiting for the data loader"
    (multiplied,) = (one for one in changes.operations if one.name == "aten::mm")
    assert multiplied.interval_ms[0] < 0 < multiplied.interval_ms[1]
    (loader,) = changes.findings
    assert (loader.title, loader.before_ms > 5 * loader.after_ms) == ("The data loader", True)


def test_a_training_beside_itself_is_not_faster(tmp_path):
    changes = compare(loop(1000, 4000), loop(1000, 4000, seed=1), tmp_path)
    assert changes.verdict == "undecided"
    assert changes.step.interval_ms[0] < 0 < changes.step.interval_ms[1]


def test_of_two_lengths_the_first_steps_are_paired_and_few_are_said_to_be_few(tmp_path):
    changes = compare(loop(9000, 4000, steps=3), loop(1000, 4000, steps=9), tmp_path)
    assert changes.pairs == 3
    assert any("3 pairs" in caveat for caveat in changes.caveats)
    assert compare(loop(9000, 4000, steps=1), loop(1, 1, steps=1), tmp_path).step.interval_ms is None


def test_a_step_that_compiles_is_on_neither_side(tmp_path):
    after = Events().steps((0, 500_000), *((500_000 + 1000 * n, 501_000 + 1000 * n) for n in range(4)))
    before = Events().steps(*((2000 * n, 2000 * n + 2000) for n in range(5)))
    for number in range(4):
        after.kernel("fused", 500_010 + 1000 * number, 900, launched=(500_002 + 1000 * number, 5))
    for number in range(5):
        before.kernel("sgemm", 2000 * number + 10, 1900, launched=(2000 * number + 2, 5))
    changes = compare(before, after, tmp_path)
    assert (changes.pairs, changes.step.before_ms, changes.step.after_ms) == (4, 2.0, 1.0)
    assert {one.name: one.saved_ms for one in changes.operations} == {"sgemm": 1.9, "fused": -0.9}
    assert any(caveat.startswith("after: Step 1 takes 500") for caveat in changes.caveats)


def test_traces_without_steps_cannot_be_paired(tmp_path):
    with pytest.raises(UserError, match="no step is marked"):
        compare(loop(1, 1), Events().kernel("sgemm", 0, 100), tmp_path)
