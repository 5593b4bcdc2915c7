"""What requests wait for."""

import asyncio

import pytest

from components.serving.replies import Reply


async def awaited(reply: Reply[int]) -> int:
    return await reply


def test_whoever_waits_goes_on_before_giving_returns() -> None:
    reply, went_on = Reply[int](), []
    reply.then = lambda: went_on.append(reply.result())
    reply.give(3)
    assert went_on == [3]


def test_one_that_is_given_already_is_not_waited_for() -> None:
    reply = Reply[int]()
    reply.give(3)
    with pytest.raises(StopIteration) as found:
        awaited(reply).send(None)
    assert found.value.value == 3


@pytest.mark.parametrize("is_task", [False, True])
def test_tasks_wait_too_and_get_the_answer_or_the_error(is_task: bool) -> None:
    async def found(answer: int | BaseException) -> int:
        reply = Reply[int]()
        asyncio.get_running_loop().call_later(0.001, reply.give, answer)
        return await (asyncio.create_task(awaited(reply)) if is_task else reply)

    assert asyncio.run(found(3)) == 3
    with pytest.raises(KeyError, match="gone"):
        asyncio.run(found(KeyError("gone")))


def test_a_task_that_waits_is_cancelled_once_the_answer_is_there() -> None:
    async def cancelled() -> bool:
        reply = Reply[int]()
        task = asyncio.create_task(awaited(reply))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
        reply.give(3)
        with pytest.raises(asyncio.CancelledError):
            await task
        return task.cancelled()

    assert asyncio.run(cancelled())
