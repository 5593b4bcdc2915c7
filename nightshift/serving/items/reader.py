"""Decodes items in threads, so that the event loop answers others meanwhile."""

import asyncio
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

from nightshift import storage
from nightshift.classification.shards import Array
from nightshift.serving.errors import OverloadedError, RequestError
from nightshift.serving.items.base import Items

THREADS = 4  # at most: an image of 50 million pixels takes up 150 MB while it is decoded

Found = TypeVar("Found")


class Seen(NamedTuple):
    """What the graph sees of n items.

    Attributes:
        inputs: (n, ...).
        hashes: SHA-256 of each item's input, as the features table has it under `content`.
    """

    inputs: Array
    hashes: list[str]


class Reader:
    """Turns the items of requests into the graph's input, those of a request one after the other in a thread.

    Attributes:
        items: what they are.
    """

    def __init__(self, items: Items, most: int) -> None:
        """Start no thread yet.

        Args:
            items: what they are.
            most: items that may be decoded or wait for it.
        """
        self.items, self._most, self._waiting = items, most, 0
        self._threads = ThreadPoolExecutor(min(len(os.sched_getaffinity(0)), THREADS), "items")

    async def read(self, given: Sequence[object], fields: Sequence[str]) -> Seen:
        """Read items.

        Args:
            given: their bytes, or what JSON has of each.
            fields: what to call each in a message.

        Raises:
            RequestError: for the first one that cannot be scored.
            OverloadedError: when too many wait already.
        """
        return await self._later(len(given), lambda: _seen(self.items.inputs(given, fields)))

    async def hashed(self, inputs: Array) -> Seen:
        """Return inputs that were sent as they are, (n, ...), with their hashes; raises as `read`."""
        if not 0 <= inputs.min() <= inputs.max() < self.items.known:
            allowed = f"numbers from 0 to {self.items.known - 1}"
            raise RequestError("inputs[0].data", f"{inputs.min()} to {inputs.max()}", allowed)
        return await self._later(len(inputs), lambda: _seen(inputs))

    async def _later(self, size: int, work: Callable[[], Found]) -> Found:
        if self._waiting + size > self._most:
            raise OverloadedError(f"{self._waiting} {self.items.name}s wait already; try again later")
        self._waiting += size
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._waiting -= size


def _seen(inputs: Array) -> Seen:
    return Seen(inputs, [storage.sha256(each.tobytes()) for each in inputs])
