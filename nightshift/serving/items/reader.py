"""Decodes items in threads, so that the event loop answers others meanwhile."""

import asyncio
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

from nightshift import storage
from nightshift.serving.errors import OverloadedError
from nightshift.serving.items.base import FieldContents, Items
from nightshift.tensors import Tensors, row_count

THREADS = 4  # at most: an image of 50 million pixels takes up 150 MB while it is decoded

Found = TypeVar("Found")


class Seen(NamedTuple):
    """What the graph sees of n items.

    Attributes:
        inputs: n rows.
        hashes: SHA-256 of each item's inputs, as the features table has it under `content`.
    """

    inputs: Tensors
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

    async def read(self, contents: Mapping[str, FieldContents]) -> Seen:
        """Read items, by the names of their fields.

        Raises:
            RequestError: for the first one that cannot be scored.
            OverloadedError: when too many wait already.
        """
        size = len(next(iter(contents.values())).values)
        return await self._later(size, lambda: _seen(self.items.inputs(contents)))

    async def hashed(self, inputs: Tensors) -> Seen:
        """Return inputs that were sent as they are, in the order of the fields, with their hashes; raises as `read`."""
        return await self._later(row_count(inputs), lambda: _seen(inputs))

    async def _later(self, size: int, work: Callable[[], Found]) -> Found:
        if self._waiting + size > self._most:
            raise OverloadedError(f"{self._waiting} {self.items.name}s wait already; try again later")
        self._waiting += size
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._waiting -= size


def _seen(inputs: Tensors) -> Seen:
    rows = zip(*inputs.values(), strict=True)
    return Seen(inputs, [storage.sha256(b"".join(array.tobytes() for array in row)) for row in rows])
