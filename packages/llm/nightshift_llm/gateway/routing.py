"""The choice of a replica: the one with the least work before the first token of a prompt."""

from collections.abc import Sequence
from typing import NamedTuple

FULL_CACHE = 0.95  # cache usage from which a replica evicts blocks that are still needed


class ReplicaLoad(NamedTuple):
    """The work of a replica with a prompt added.

    Attributes:
        missing: blocks of the prompt that are not in its cache.
        queued: blocks of other prompts that wait for their first token.
        running: requests in progress, by its own count or the gateway's, whichever is higher.
        cache_usage: share of its KV cache in use, 0..1.
        known: blocks that it has seen; the tie-breaker.
    """

    missing: int
    queued: int
    running: int
    cache_usage: float
    known: int

    @property
    def rank(self) -> tuple[bool, int, int]:
        """The sort key: the lower, the sooner the first token."""
        work = self.missing + self.queued + self.running  # a step of one request takes about as long as a block
        return self.cache_usage >= FULL_CACHE, work, self.known


def choose(loads: Sequence[ReplicaLoad]) -> int:
    """Return the index of the replica with the lowest rank; the first of equal ones."""
    return min(range(len(loads)), key=lambda index: loads[index].rank)
