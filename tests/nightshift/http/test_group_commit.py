"""Work that is done together."""

import asyncio
import threading

from nightshift.http.group_commit import FULL, GroupCommit


def test_what_is_asked_for_during_a_turn_is_the_next_one_and_an_error_is_told_to_all_of_its_turn() -> None:
    turns: list[list[int]] = []
    go = threading.Event()

    def work(numbers: list[int]) -> list[object]:
        go.wait()
        turns.append(numbers)
        if len(turns) == 2:
            raise OSError("full")
        return [ValueError("odd") if number % 2 else number for number in numbers]

    async def ask() -> None:
        commit = GroupCommit(work, lambda _: False)
        first = [commit.submit(number) for number in range(3)]
        for _ in range(5):
            await asyncio.sleep(0)
        later = [commit.submit(number) for number in range(3)]
        go.set()
        assert [str(outcome) for outcome in await asyncio.gather(*first, return_exceptions=True)] == ["0", "odd", "2"]
        assert [str(outcome) for outcome in await asyncio.gather(*later, return_exceptions=True)] == ["full"] * 3
        assert await commit.submit(4) == 4

    asyncio.run(ask())
    assert turns == [[0, 1, 2], [0, 1, 2], [4]]


def test_a_turn_waits_until_nothing_more_comes_and_a_quick_one_is_done_in_the_event_loop() -> None:
    turns: list[tuple[list[int], bool]] = []

    def work(numbers: list[int]) -> list[int]:
        turns.append((numbers, threading.current_thread() is threading.main_thread()))
        return numbers

    async def ask(commit: GroupCommit) -> None:
        pending = [commit.submit(0)]
        for number in range(1, 4):  # another one in each turn of the loop
            pending.append(commit.submit(number))
            await asyncio.sleep(0)
        assert await asyncio.gather(*pending) == [0, 1, 2, 3]

    for is_quick in (True, False):
        asyncio.run(ask(GroupCommit(work, lambda _, is_quick=is_quick: is_quick)))
    assert turns == [([0, 1, 2, 3], True), ([0, 1, 2, 3], False)]
    asyncio.run(ask_many(GroupCommit(work, lambda _: True)))
    assert [len(numbers) for numbers, _ in turns[2:]] == [FULL, 1]


async def ask_many(turns: GroupCommit) -> None:
    """Ask one thing after the other without a pause, one more than a turn has room for that waits."""
    pending = [turns.submit(0)]
    for number in range(FULL):
        pending.append(turns.submit(number))
        await asyncio.sleep(0)
    await asyncio.gather(*pending)
