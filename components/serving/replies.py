"""What a request waits for while something is done for several at once."""

import asyncio
from collections.abc import Callable, Generator
from contextvars import Context
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")


class Reply(msgspec.Struct, Generic[T]):
    """An answer to come, for one who waits.

    An exchange goes on as soon as it is given; with a future it would in the event loop's next turn, and a future takes
    longer to make. A task can wait for it too: to tasks it looks like a future that cannot be cancelled.

    Attributes:
        then: called when it is given.
    """

    then: Callable[[], Any] | None = None
    _is_given: bool = False
    _answer: Any = None
    _asyncio_future_blocking: bool = True  # what a task looks for

    def give(self, answer: T | BaseException) -> None:
        """Answer, with a value or with the exception that is to be raised."""
        self._answer, self._is_given = answer, True
        if self.then:
            self.then()

    def __await__(self) -> "Generator[Reply[T], None, T]":
        if not self._is_given:
            yield self
        return self.result()

    def result(self) -> T:
        """Return the answer, or raise it."""
        if isinstance(self._answer, BaseException):
            raise self._answer
        answer: T = self._answer
        return answer

    def get_loop(self) -> asyncio.AbstractEventLoop:
        """Return the event loop of the task that waits."""
        return asyncio.get_running_loop()

    def add_done_callback(self, call: Callable[["Reply[T]"], Any], *, context: Context) -> None:
        """Have a task go on."""
        self.then = partial(asyncio.get_running_loop().call_soon, call, self, context=context)

    def cancel(self, _message: object = None) -> bool:
        """Return that it is not: the task is cancelled once it goes on."""
        return False
