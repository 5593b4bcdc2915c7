"""The parts of a step in a process."""

import time

import pytest
import torch

from nightshift.models.neural import shares
from nightshift.models.neural.shares import PieceTimer, StepTimes


def test_kernels_that_overlap_count_once() -> None:
    assert shares.merge_intervals([(5.0, 6.0), (0.0, 2.0), (1.0, 3.0), (1.5, 1.8)]) == pytest.approx(4.0)
    assert shares.merge_intervals([]) == 0.0


def test_a_step_is_the_median_of_each_part() -> None:
    steps = [StepTimes(0.0, 1.0, 3.0, 4.0), StepTimes(0.1, 3.0, 2.0, 9.0), StepTimes(0.2, 2.0, 1.0, 5.0)]

    assert StepTimes.median(steps) == StepTimes(0.1, 2.0, 2.0, 5.0)


def test_a_thread_that_sleeps_neither_computes_nor_waits_for_a_core() -> None:
    began, computed, queued = time.perf_counter(), time.thread_time(), shares.read_queued()

    shares.spin(0.05)
    time.sleep(0.05)

    assert time.thread_time() - computed == pytest.approx(0.05, abs=0.02)
    assert shares.read_queued() - queued < time.perf_counter() - began - 0.09


def test_pieces_are_timed_without_what_they_wait_for() -> None:
    timer = PieceTimer(torch.device("cpu"))

    for _ in range(3):
        timer.steps.append([])
        timer._time(("forward", 1), lambda number: time.sleep(0.01), 0)
        timer._time(("backward", 1), lambda number: shares.spin(0.02), 0)

    forward, backward = timer.pieces()
    assert (forward[:3], backward[:3]) == (("forward", 1, 0), ("backward", 1, 0))
    assert forward[3] < 0.01 < backward[3]
