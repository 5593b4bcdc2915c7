"""The course of a loss: points over equal parts of a training."""

import json

import pytest
import torch

from nightshift.models.neural.losses import POINTS, DivergedError, Losses


def course(values: list[float], may_overflow: bool = False) -> Losses:
    losses = Losses(len(values), may_overflow)
    for done, value in enumerate(values, 1):
        losses.add(done, torch.tensor(value))
    return losses


def test_a_point_is_the_mean_over_its_part_of_the_training_and_the_last_part_may_be_shorter() -> None:
    losses = course([float(number) for number in range(1, 251)])

    assert losses.points[:2] == [(3, 2.0), (6, 5.0)]
    assert losses.points[-1] == (250, 250.0)
    assert len(losses.points) == 84 <= POINTS


def test_a_short_training_has_a_point_a_step() -> None:
    assert course([2.0, 1.0]).points == [(1, 2.0), (2, 1.0)]


def test_a_part_whose_loss_overflows_in_half_precision_has_no_point() -> None:
    assert course([2.0, float("inf"), 1.0], may_overflow=True).points == [(1, 2.0), (3, 1.0)]


def test_the_first_loss_that_is_not_finite_is_named_at_the_next_point_or_checkpoint() -> None:
    with pytest.raises(DivergedError, match="the loss of step 4 is inf"):
        course([1.0] * 3 + [float("inf")] + [float("nan")] * 246)

    before = Losses(250)
    before.add(1, torch.tensor(1.0))
    before.add(2, torch.tensor(float("nan")))
    with pytest.raises(DivergedError, match="the loss of step 2 is nan"):
        before.state()


def test_the_newest_loss_is_the_mean_since_the_last_fetch_and_the_first_steps_are_there_at_once() -> None:
    losses = Losses(1_000_000)
    losses.add(1, torch.tensor(3.0))
    assert losses.newest == 3.0

    losses.add(2, torch.tensor(2.0))
    losses.add(3, torch.tensor(1.0))
    losses.state()
    assert losses.newest == 1.5
    assert losses.points == []


def test_a_course_goes_on_inside_a_part() -> None:
    values = torch.rand(250, generator=torch.Generator().manual_seed(0)).tolist()
    whole = course(values)

    before = Losses(250)
    for done in range(1, 102):
        before.add(done, torch.tensor(values[done - 1]))
    after = Losses(250)
    after.load(json.loads(json.dumps(before.state())))
    for done in range(102, 251):
        after.add(done, torch.tensor(values[done - 1]))

    assert after.points == whole.points
