"""How far ahead of its consumer work is done."""

import threading
import time
from collections.abc import Callable

import pytest

from nightshift.models.neural.prefetching import AHEAD, MOST, Prefetcher

PATIENCE = 30  # seconds until a test that hangs fails


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("ahead")]


def test_the_next_items_are_worked_on_while_an_output_is_used() -> None:
    """A consumer that waits until the item after the next one has begun would wait forever without threads."""
    begun = [threading.Event() for _ in range(6)]

    def call(number: int) -> int:
        begun[number].set()
        return number

    for number in Prefetcher(call).run(range(6)):
        assert all(event.wait(PATIENCE) for event in begun[number : number + 1 + AHEAD])


def test_no_more_is_worked_on_than_that() -> None:
    requested: list[int] = []
    outputs = Prefetcher(lambda _: 0).run(requested.append(number) or number for number in range(9))
    next(outputs)

    assert requested == [*range(1 + AHEAD)]


def meet(parties: int, first: int) -> Callable[[int], int]:
    """Return a call that, from some item on, waits until so many are worked on at once."""
    barrier = threading.Barrier(parties, timeout=PATIENCE)
    return lambda number: number if number < first else barrier.wait() * 0 + number


def test_whoever_waits_for_an_output_gets_more_of_them_at_once() -> None:
    """Each output but the first is waited for: of two ahead at a time, three would never meet."""
    prefetcher = Prefetcher(meet(AHEAD + 2, 1))

    assert list(prefetcher.run(range(1 + 2 * (AHEAD + 2)))) == [*range(1 + 2 * (AHEAD + 2))]
    assert prefetcher.depth > AHEAD


def test_whoever_takes_longer_than_the_work_gets_no_more() -> None:
    prefetcher = Prefetcher(lambda number: number)
    for _ in prefetcher.run(range(2 * MOST)):
        time.sleep(0.005)

    assert prefetcher.depth < MOST  # AHEAD, but for a thread that gets no core for so long


@pytest.mark.parametrize(("most", "depth"), [(1, AHEAD), (4, 4)])
def test_it_never_works_further_ahead_than_it_may(most: int, depth: int) -> None:
    prefetcher, may_end = Prefetcher(lambda number: may_end.wait(0.02) or number), threading.Event()

    assert list(prefetcher.run(range(30), most)) == [*range(30)]
    assert prefetcher.depth == depth


def test_what_is_raised_for_an_item_is_raised_where_its_output_is_asked_for() -> None:
    def call(number: int) -> int:
        if number == 3:
            raise OSError("the shard is gone")
        return number

    outputs = Prefetcher(call).run(range(9))

    assert [next(outputs) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(OSError, match="the shard is gone"):
        next(outputs)
    assert not threads()
