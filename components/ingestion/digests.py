"""SHA-256 of source files, remembered in the lake: a file that its store says has not changed is not read again."""

from collections.abc import Iterator
from contextlib import contextmanager

from nightshift import storage
from nightshift.storage import Version

# URI of a file -> its version when it was read, and the hash of what was read
Digests = dict[str, tuple[Version, str]]


@contextmanager
def remember(uri: str) -> Iterator[Digests]:
    """Give the digests that a file holds, and write them back if some were added; of concurrent writers the last stays.

    Raises:
        UserError: when the file is not JSON, or not writable.
    """
    before = storage.read_json(uri) if storage.exists(uri) else {}
    digests: Digests = {file: (tuple(version), digest) for file, (version, digest) in before.items()}
    known = dict(digests)
    try:
        yield digests
    finally:
        if digests != known:
            storage.write_json(uri, digests)
