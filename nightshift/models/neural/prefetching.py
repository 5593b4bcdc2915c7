"""Work that is done in threads, ahead of whoever waits for it."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import islice
from typing import Generic, TypeVar

AHEAD = 2  # items, at first
MOST = 16
NOTICED = 0.001  # seconds: less is no wait

T = TypeVar("T")
R = TypeVar("R")


class Prefetcher(Generic[T, R]):
    """Calls a function for items ahead of the one whose output is taken.

    How far ahead is measured: each time that an output has to be waited for, one item more is worked on from then on.
    The first output, for which everybody waits, says nothing.

    Args:
        call: threads call it for several items at once.

    Attributes:
        depth: items ahead.
    """

    def __init__(self, call: Callable[[T], R]) -> None:
        self._call, self.depth = call, AHEAD

    def run(self, items: Iterable[T], most: int = MOST) -> Iterator[R]:
        """Yield the outputs in the order of the items; `most` is how deep it may become.

        What the function raises is raised for that item. The threads end with the iterator, however early.
        """
        pool, rest = ThreadPoolExecutor(MOST, thread_name_prefix="ahead"), iter(items)
        try:
            futures = (pool.submit(self._call, item) for item in rest)
            waiting, is_first = deque(islice(futures, 1)), True
            while waiting:
                output = waiting.popleft()
                if not is_first and self.depth < most and wait([output], NOTICED).not_done:
                    self.depth += 1
                waiting.extend(islice(futures, max(0, self.depth - len(waiting))))
                yield output.result()
                is_first = False
        finally:
            pool.shutdown(cancel_futures=True)
