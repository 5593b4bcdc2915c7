"""Pretrained weights and tokenizers of a commit, from the Hub into its client's cache."""

import functools
import os
import re
from pathlib import Path

from nightshift import storage
from nightshift.hub.connection import SCHEME, HubReference, connect, hash_as_git
from nightshift.runtime.errors import UserError

COMMIT = re.compile("[0-9a-f]{40}")
# weights, tokenizers and their settings, of which none can run code
PATTERNS = ["*.safetensors", "*.safetensors.index.json", "tokenizer.json", "*config.json", "special_tokens_map.json"]
SHA256 = 64  # hexadecimal digits


def is_reference(uri: str) -> bool:
    """Return whether a setting names a repository of the Hub."""
    return uri.startswith(SCHEME)


@functools.cache
def download(field: str, uri: str) -> str:
    """Return the folder with the files of `hf://organization/name@commit`; what is in the cache is not asked for again.

    Args:
        field: of the config that names it, for messages.
        uri: the repository and its commit, so that a config names the same weights every night.

    Raises:
        UserError: when it names no commit, or a file is not the one of the commit.
        UnavailableError: when the Hub does not answer.
    """
    reference = HubReference.parse(field, uri)
    with connect() as api:
        if not COMMIT.fullmatch(reference.revision):
            commit = api.model_info(reference.name, revision=reference.revision or None).sha
            raise UserError(
                f"{field}: {uri!r} may be other weights tomorrow; write {SCHEME}{reference.name}@{commit}, as it is now"
            )
        folder = api.snapshot_download(
            reference.name,
            revision=reference.revision,
            allow_patterns=PATTERNS,
            cache_dir=os.environ.get("HF_HUB_CACHE") or None,
        )
    for path in sorted(Path(folder).rglob("*")):
        if path.is_file():
            _check(field, path)
    return str(folder)


def _check(field: str, path: Path) -> None:
    """Refuse a file with another hash than the Hub has given it, by which the cache names what its links point to.

    Raises:
        UserError: when it differs, or the cache has no links.
    """
    if not path.is_symlink():
        raise UserError(
            f"{field}: {path} is no link to a file with a hash; set HF_HUB_CACHE to a folder where links can be made"
        )
    expected = path.readlink().name
    actual = storage.digest(str(path)) if len(expected) == SHA256 else hash_as_git(path.read_bytes())
    if actual != expected:
        raise UserError(f"{field}: {path} is not the file of its commit; delete {path.parent}, then run it again")
