"""Which version answers an entity while a challenger gets a share of the requests: always the same one.

An entity's place is drawn once a release, by hash. The challenger answers the places below its share, so whom it
answers at 5 % it answers at 25 % too.
"""

import math
from hashlib import blake2b

BITS = 53  # bits of a float's mantissa


def bucket(salt: str, entity: str) -> float:
    """Return an entity's place, uniform in [0, 1), the same on every machine.

    Args:
        salt: another one draws other places.
        entity: a customer, for example.
    """
    key = blake2b(salt.encode(), digest_size=32).digest()
    digest = blake2b(entity.encode(), digest_size=8, key=key).digest()
    return math.ldexp(int.from_bytes(digest) >> (64 - BITS), -BITS)


def is_answered(sha256: str, share: float, entity: str) -> bool:
    """Return whether a challenger answers an entity.

    Args:
        sha256: of the challenger, whose release draws places of its own.
        share: of the entities that it answers.
        entity: a customer, for example.
    """
    return bucket(sha256, entity) < share
