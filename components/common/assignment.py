"""Which version answers an entity while a challenger gets a share of the requests: always the same one.

An entity's place is drawn once a release, by hash. The challenger answers the places below its share, so whom it
answers at 5 % it answers at 25 % too.
"""

import math
from hashlib import blake2b

from components.common.contracts.release import Entry, Served

BITS = 53  # of a float's mantissa


def bucket(salt: str, entity: str) -> float:
    """Return an entity's place, uniform in [0, 1), the same on every machine.

    Args:
        salt: another one draws other places.
        entity: a customer, for example.
    """
    key = blake2b(salt.encode(), digest_size=32).digest()
    digest = blake2b(entity.encode(), digest_size=8, key=key).digest()
    return math.ldexp(int.from_bytes(digest) >> (64 - BITS), -BITS)


def answering(release: Entry, entity: str) -> Served:
    """Return the version that answers an entity."""
    challenger = release.challenger
    return challenger if challenger and bucket(challenger.sha256, entity) < challenger.traffic else release.live
