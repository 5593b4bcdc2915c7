"""The measurements of the training loop."""

import json
import time

import pytest
import torch

from components.profiling import core
from components.profiling.core import Operation
from components.tabular import mlp
from components.tabular.mlp import Loop, Parameters
from tests.components.training import samples

CPU = torch.device("cpu")
PARAMETERS = Parameters(hidden=16, batch_size=8)


@pytest.fixture(scope="module")
def measured():
    return core.measure(*samples.matrix(), PARAMETERS, CPU)


def rows() -> tuple[torch.Tensor, torch.Tensor]:
    return mlp.resident(*samples.matrix(), CPU)


class Slow(Loop):
    """A loop whose steps take at least a millisecond."""

    def step(self, inputs, labels):
        time.sleep(0.001)


def loop(kind: type[Loop] = Loop) -> Loop:
    return kind(mlp.network(3, PARAMETERS), PARAMETERS, steps=10_000)


def test_an_epoch_over_the_rows_is_measured(measured):
    profile, _ = measured

    assert (profile.device, profile.model, profile.steps, profile.batch_size) == ("cpu", "mlp", 75, 8)
    assert profile.rows_per_second == pytest.approx(600 / profile.seconds)
    assert profile.peak_memory_bytes > 50 * 2**20


def test_of_many_rows_only_the_first_are_measured():
    profile, _ = core.measure(*samples.matrix(rows=3000), Parameters(hidden=2, batch_size=1), CPU)

    assert profile.steps == core.MEASURED_STEPS
    assert profile.rows_per_second == pytest.approx(core.MEASURED_STEPS / profile.seconds)


def test_the_operations_counted_are_those_of_the_matrix_products(measured):
    profile, _ = measured

    # a product of (n, k) and (k, m) takes 2nkm; forward and the weights' gradients need every layer's, and the
    # gradient of its input only the last layer's
    forward = 2 * 8 * (3 * 16 + 16 * 1)
    expected = forward * 2 + 2 * 8 * 16 * 1
    assert profile.flops_per_second == pytest.approx(expected * 75 / profile.seconds)


def test_waiting_is_a_small_share_when_steps_are_slow_and_all_of_it_when_they_cost_nothing():
    class Idle(Loop):
        def step(self, inputs, labels):
            pass

    data = rows()

    assert core.waiting(loop(Slow), data, PARAMETERS, copying=0.0) < 0.5
    assert core.waiting(loop(Idle), data, PARAMETERS, copying=0.0) > 0.5


def test_the_copy_to_the_device_counts_as_waiting():
    # seventy-five steps of a millisecond, and ten seconds of copying
    assert core.waiting(loop(Slow), rows(), PARAMETERS, copying=10.0) > 0.95


def test_the_operations_with_most_time_come_first_and_their_shares_are_of_all(measured):
    profile, _ = measured
    times = [operation.self_cpu_ms for operation in profile.top_operations]
    shares = [operation.share for operation in profile.top_operations]

    assert len(times) == core.TOP
    assert times == sorted(times, reverse=True)
    assert 0 < sum(shares) <= 1
    assert {operation.self_device_ms for operation in profile.top_operations} == {0.0}
    calls = {operation.name: operation.calls for operation in profile.top_operations}
    assert calls["aten::addmm"] == 2 * core.PROFILED_STEPS


def test_the_trace_holds_the_profiled_steps_only(measured, tmp_path):
    _, profiler = measured
    profiler.export_chrome_trace(str(tmp_path / "trace.json"))

    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert sum(event["name"] == "Optimizer.step#Adam.step" for event in events) == core.PROFILED_STEPS


def test_the_diagnosis_says_when_the_loop_waits():
    operations = [Operation("aten::mm", 1, 1.0, 0.0, 0.4)]

    assert core.diagnosis(0.5, operations).startswith("50% of the time passes waiting for rows; a larger batch_size")
    assert core.diagnosis(0.013, operations) == (
        "The loop computes: 1.3% of the time passes waiting for rows; aten::mm takes most, 40%."
    )
