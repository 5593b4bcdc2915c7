"""The choice of a replica: the one with the least work before the first token of a prompt."""

from collections.abc import Sequence
from typing import NamedTuple

FULL_CACHE = 0.95  # share of a replica's cache in use, from which it evicts what others still need


class ReplicaLoad(NamedTuple):
    """The work of a replica, were it to receive a prompt.

    Attributes:
        missing: blocks of the prompt that its cache does not have.
        queued: blocks of other prompts that wait for their first token.
        running: requests in progress, its own count or the gateway's, whichever is higher.
        cache_usage: share of its cache in use, 0..1.
        known: blocks that it has seen; new prompts go where fewer are.
    """

    missing: int
    queued: int
    running: int
    cache_usage: float
    known: int

    @property
    def rank(self) -> tuple[bool, int, int]:
        """The lower, the sooner it answers."""
        work = self.missing + self.queued + self.running  # a step of one request takes about as long as a block
        return self.cache_usage >= FULL_CACHE, work, self.known


def choose(loads: Sequence[ReplicaLoad]) -> int:
    """Return the index of the replica that answers first; of equal ones the first."""
    return min(range(len(loads)), key=lambda index: loads[index].rank)
