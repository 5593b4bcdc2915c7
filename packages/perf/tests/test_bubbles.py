"""How long stages of a pipeline wait, from pieces whose seconds are known."""

import pytest

from nightshift.config.neural import Trainer
from nightshift_perf import bubbles
from nightshift_perf.bubbles import Piece


def one_f_one_b(stages: int, pieces: int, seconds: tuple[float, ...]) -> list[list[Piece]]:
    """What stages compute, each its own seconds forward and twice that backward, in the order of 1F1B."""
    orders = []
    for stage in range(stages):
        first = min(pieces, stages - stage)
        forward = [Piece("forward", stage, number, seconds[stage]) for number in range(pieces)]
        backward = [Piece("backward", stage, number, 2 * seconds[stage]) for number in range(pieces)]
        turns = [piece for pair in zip(backward, forward[first:], strict=False) for piece in pair]
        orders.append([*forward[:first], *turns, *backward[pieces - first :]])
    return orders


@pytest.mark.parametrize(("stages", "pieces"), [(2, 2), (2, 4), (4, 4), (4, 16), (8, 8)])
def test_equal_stages_wait_as_long_as_the_formula_says(stages: int, pieces: int) -> None:
    orders = one_f_one_b(stages, pieces, (0.5,) * stages)

    assert bubbles.measure_bubble(orders) == pytest.approx(bubbles.formula(Trainer(pipeline=stages), pieces))


def test_a_stage_that_computes_longer_makes_the_others_wait() -> None:
    orders = one_f_one_b(2, 4, (0.5, 1.0))

    assert bubbles.replay(orders) == pytest.approx(4 * 3 + 1.5)
    assert bubbles.measure_bubble(orders) == pytest.approx(1 - 9 / 13.5)
    assert bubbles.measure_bubble(bubbles.even_out(orders)) == pytest.approx(1 / 5)


def test_gradients_of_weights_wait_for_nobody() -> None:
    last = [Piece("forward", 1, 0, 1.0), Piece("backward", 1, 0, 1.0), Piece("weight", 1, 0, 1.0)]
    first = [Piece("forward", 0, 0, 1.0), Piece("backward", 0, 0, 1.0), Piece("weight", 0, 0, 1.0)]

    assert bubbles.replay([first, last]) == pytest.approx(5)


def test_interleaved_stages_wait_less_and_zero_bubble_has_no_formula() -> None:
    shares = [bubbles.formula(Trainer(pipeline=4, schedule=name), 8) for name in ("1f1b", "interleaved", "zero-bubble")]

    assert shares == [pytest.approx(3 / 11), pytest.approx(3 / 19), None]


def test_an_order_in_which_stages_wait_for_ever_is_an_error() -> None:
    with pytest.raises(ValueError, match="for ever"):
        bubbles.replay([[Piece("backward", 0, 0, 1.0)], [Piece("backward", 1, 1, 1.0)]])
