"""Pseudonyms by a keyed hash: the same text gets the same one, and nobody without the key can go back."""

import base64
import hashlib
import hmac
from dataclasses import dataclass, field

from nightshift.runtime.errors import UserError

LEAST_BYTES = 16
LONGEST_SHIFT = 365  # days
NAME_BYTES = 10  # 16 characters, which the shortest kind of DICOM text holds


@dataclass(frozen=True)
class Pseudonyms:
    """The pseudonyms of one key.

    Attributes:
        key: a secret of at least 16 bytes.

    Raises:
        UserError: when the key is too short.
    """

    key: bytes = field(repr=False)

    def __post_init__(self) -> None:
        if len(self.key) < LEAST_BYTES:
            raise UserError(
                f"the key of the pseudonyms has {len(self.key)} bytes; it needs at least {LEAST_BYTES}: "
                "`openssl rand -hex 32` makes one"
            )

    def uid(self, text: str) -> str:
        """Return the UID that stands for another, derived from a UUID as DICOM PS3.5 B.2 allows."""
        return f"2.25.{int.from_bytes(self._hash('uid', text)[:16])}"

    def name(self, text: str) -> str:
        """Return the 16 letters and digits that stand for a name or an identifier."""
        return base64.b32encode(self._hash("name", text)[:NAME_BYTES]).decode().lower()

    def days(self, patient: str) -> int:
        """Return by how many days the dates of a patient are moved: -365 to -1, so that none lies in the future."""
        return -1 - int.from_bytes(self._hash("days", patient)[:8]) % LONGEST_SHIFT

    def _hash(self, purpose: str, text: str) -> bytes:
        return hmac.digest(self.key, f"{purpose}:{text}".encode(), hashlib.sha256)
