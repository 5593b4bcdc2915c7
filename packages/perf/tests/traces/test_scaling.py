"""Fits of step time over the number of GPUs."""

import pytest

from nightshift_perf.traces.scaling import StepMeasurement, fit, serial_share


def measured(sizes, alpha=0.5, ring=20.0, compute=100.0, residual=7.0):
    communication = {n: alpha * 2 * (n - 1) + ring * 2 * (n - 1) / n for n in sizes}
    return [StepMeasurement(n, compute + residual + moved, compute, moved) for n, moved in communication.items()]


@pytest.mark.parametrize("sizes", [(1, 2, 4, 8), (2, 4, 8, 16), (8, 1, 64)])
def test_latency_bandwidth_and_residual_are_found_again(sizes):
    fitted = fit(measured(sizes))
    assert (fitted.alpha_ms, fitted.ring_ms) == pytest.approx((0.5, 20.0))
    assert (fitted.compute_ms, fitted.residual_ms) == pytest.approx((100, 7))
    assert [point.fitted_ms for point in fitted.points] == pytest.approx([point.step_ms for point in fitted.points])
    assert [point.world_size for point in fitted.points] == sorted(sizes)


def test_a_slow_host_is_not_taken_for_a_slow_network():
    points = [StepMeasurement(n, 100 + 10 * n, 100, 0.0) for n in (1, 2, 4)]
    fitted = fit(points)
    assert (fitted.alpha_ms, fitted.ring_ms) == (0, 0)
    assert fitted.residual_ms == pytest.approx(70 / 3, abs=1e-3)


def test_amdahls_serial_share_is_found_again():
    serial = 0.1
    # n GPUs take s + (1 - s) / n for the work of one, so n times that for the work of n
    steps = [(n, n * (serial + (1 - serial) / n)) for n in (1, 2, 8, 32)]
    assert serial_share(steps) == pytest.approx(serial)


def test_perfect_scaling_has_no_limit():
    fitted = fit([StepMeasurement(n, 100, 100, 0.0) for n in (1, 2, 4)])
    assert (fitted.serial_share, fitted.largest_speedup) == (0, None)
    assert {point.efficiency for point in fitted.points} == {1}
