"""Which prefixes of prompts a replica probably has in its cache, block by block."""

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Sequence

BLOCK = 128  # bytes of text, about 32 tokens
MAX_BLOCKS = 1024  # blocks of a prompt; later ones are ignored
CAPACITY = 16_384  # blocks per replica, about 500,000 tokens


def hash_prefixes(text: bytes) -> list[int]:
    """Return a hash for each whole block of a text, of everything up to the block's end."""
    hashes, parent = [], 0
    for end in range(BLOCK, min(len(text), BLOCK * MAX_BLOCKS) + 1, BLOCK):
        parent = hash((parent, text[end - BLOCK : end]))
        hashes.append(parent)
    return hashes


class PrefixCache:
    """The blocks that a replica has seen last, as an estimate of its cache, in bounded memory.

    A block is never older than those that follow it in a prompt: those are dropped first, as engines do.
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._blocks: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._blocks)

    def count_cached(self, hashes: Sequence[int]) -> int:
        """Return the number of a prompt's first blocks that are cached."""
        if not hashes or hashes[0] not in self._blocks:  # as most prompts at most replicas
            return 0
        return bisect_left(hashes, True, key=lambda block: block not in self._blocks)

    def add(self, hashes: Sequence[int]) -> None:
        """Add a prompt's blocks, or mark them as just used."""
        for block in reversed(hashes):
            self._blocks[block] = None
            self._blocks.move_to_end(block)
        while len(self._blocks) > self._capacity:
            self._blocks.popitem(last=False)
