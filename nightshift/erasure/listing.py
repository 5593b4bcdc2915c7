"""The list of who was erased, kept in the lake: salted digests instead of ids, and tombstones of renamed partitions."""

import hashlib
import hmac
import secrets
from collections.abc import Callable
from datetime import date

from nightshift import storage
from nightshift.contracts.erasure import ErasureList
from nightshift.runtime.errors import UnavailableError
from nightshift.storage import conditional

FILE = "erasures.json"
TRIES = 10
KEY = 16  # characters of a key in the name of a partition


def read(lake: str, use_case: str) -> ErasureList | None:
    """Return the list of a use case, None when nobody was erased.

    Raises:
        UserError: when the file is damaged.
    """
    uri = storage.join(lake, use_case, FILE)
    content, _ = conditional.read(uri)
    return None if content is None else ErasureList.parse_record(content, uri)


def change(lake: str, use_case: str, edit: Callable[[ErasureList], ErasureList]) -> ErasureList:
    """Change the list by compare-and-set, so that nobody's entry is lost; return it.

    Raises:
        UnavailableError: when others change it all the time.
    """
    uri = storage.join(lake, use_case, FILE)
    for _ in range(TRIES):
        content, version = conditional.read(uri)
        before = ErasureList.parse_record(content, uri) if content else None
        after = edit(before or ErasureList(salt=secrets.token_hex(16), erased=[], renamed={}))
        if after == before or conditional.compare_and_set(uri, version, after.model_dump_json(indent=2).encode()):
            return after
    raise UnavailableError(f"{uri} is changed by others all the time; try again")


def digest(salt: str, role: str, value: str) -> str:
    """Return the keyed hash of an id.

    Args:
        salt: the list's.
        role: of the column that holds it.
        value: its canonical text.
    """
    return hmac.new(salt.encode(), f"{role}\0{value}".encode(), hashlib.sha256).hexdigest()


def find_key(erasures: ErasureList | None, day: date, key: str) -> str:
    """Return under which key a run finds a day of events, or makes it: its own, or where tombstones lead."""
    renamed = erasures.renamed if erasures else {}
    while following := renamed.get(f"{day}/{key[:KEY]}"):
        key = following
    return key
