"""Decodes items in threads, so that the event loop stays free for other requests."""

import asyncio
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from nightshift import storage
from nightshift.http.errors import OverloadedError
from nightshift.models.tensors import Tensors, row_count, take_rows
from nightshift.serving.items.schema import FieldContents, ItemAnswers, ItemSchema

THREADS = 4  # at most: decoding an image of 50 million pixels takes 150 MB


class DecodedItems(NamedTuple):
    """The graph's inputs for n items.

    Attributes:
        inputs: n rows, by name.
        hashes: SHA-256 of each item's inputs, as in the column `content` of the features table.
    """

    inputs: Tensors
    hashes: list[str]

    def take(self, rows: list[int]) -> "DecodedItems":
        """Return some items, in this order."""
        return DecodedItems(take_rows(self.inputs, rows), [self.hashes[row] for row in rows])


class DecoderPool:
    """Decodes the items of requests; each request occupies one thread.

    Attributes:
        items: schema of the items.
        answers: what they are answered with besides; None: nothing.
    """

    def __init__(self, items: ItemSchema, max_items: int, answers: ItemAnswers | None = None) -> None:
        """Start no thread yet.

        Args:
            items: schema of the items.
            max_items: most items that are decoded or wait at a time.
            answers: what they are answered with besides; None: nothing.
        """
        self.items, self.answers, self._max_items, self._waiting = items, answers, max_items, 0
        self._threads = ThreadPoolExecutor(min(len(os.sched_getaffinity(0)), THREADS), "items")

    async def decode(self, contents: Mapping[str, FieldContents]) -> DecodedItems:
        """Decode items.

        Args:
            contents: field name -> its values.

        Raises:
            RequestError: for the first item that cannot be scored.
            OverloadedError: when too many items wait.
        """
        size = len(next(iter(contents.values())).values)
        return await self._run(size, lambda: self._hash_items(self.items.decode(contents)))

    async def hash_inputs(self, inputs: Tensors) -> DecodedItems:
        """Hash inputs, in the order of the fields, that a request sent as tensors; raises as `decode`."""
        return await self._run(row_count(inputs), lambda: self._hash_items(inputs))

    async def describe(self, outputs: Tensors) -> list[dict[str, Any]]:
        """Return what items are answered with besides their classes; none where the task says nothing else."""
        if self.answers is None:
            return [{}] * row_count(outputs)
        return await asyncio.get_running_loop().run_in_executor(self._threads, self.answers.describe, outputs)

    async def _run(self, size: int, work: Callable[[], DecodedItems]) -> DecodedItems:
        if self._waiting + size > self._max_items:
            raise OverloadedError(f"{self._waiting} {self.items.name}s wait already; try again later")
        self._waiting += size
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            self._waiting -= size

    def _hash_items(self, inputs: Tensors) -> DecodedItems:
        known_by = self.items.known_by
        rows = zip(*([inputs[known_by]] if known_by in inputs else inputs.values()), strict=True)
        return DecodedItems(inputs, [storage.sha256(b"".join(array.tobytes() for array in row)) for row in rows])
