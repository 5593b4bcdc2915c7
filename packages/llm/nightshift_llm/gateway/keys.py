"""API keys: a file with a name, a hash and limits per key. The keys themselves are stored nowhere."""

import hashlib
from collections import Counter
from collections.abc import Mapping
from typing import Annotated

import msgspec

from nightshift.runtime.errors import UserError
from nightshift_llm.gateway.budgets import UNLIMITED, Amount, Limits

SHA256 = "^[0-9a-f]{64}$"
NANODOLLARS = 10**9  # in a dollar
Dollars = Annotated[float, msgspec.Meta(gt=0, le=1e9)]
Positive = Annotated[int, msgspec.Meta(ge=1)]


class ApiKey(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """A key.

    Attributes:
        name: name of its holder, in the ledger.
        sha256: SHA-256 of the key, in hexadecimal.
        tokens_per_day: limit of prompt and completion tokens per UTC day; None: unlimited.
        dollars_per_day: limit of their cost per UTC day; None: unlimited.
        requests_per_minute: see `Limits`.
    """

    name: Annotated[str, msgspec.Meta(min_length=1)]
    sha256: Annotated[str, msgspec.Meta(pattern=SHA256)]
    tokens_per_day: Positive | None = None
    dollars_per_day: Dollars | None = None
    requests_per_minute: Positive | None = None

    @property
    def limits(self) -> Limits:
        """The limits of its budget."""
        money = UNLIMITED if self.dollars_per_day is None else round(self.dollars_per_day * NANODOLLARS)
        return Limits(Amount(self.tokens_per_day or UNLIMITED, money), self.requests_per_minute)


ANYONE = ApiKey("anyone", "0" * 64)  # the key of a gateway without keys


def parse_keys(path: str, text: bytes) -> Mapping[str, ApiKey]:
    """Return hash -> key of a file in YAML.

    Raises:
        UserError: naming the file, the field and what is allowed.
    """
    try:
        keys = msgspec.yaml.decode(text, type=list[ApiKey])
    except (msgspec.DecodeError, ValueError) as error:
        raise UserError(f"keys {path!r}: {error}; see packages/llm/docs/gateway.md for an example") from None
    for field in ("name", "sha256"):
        values = Counter(getattr(key, field) for key in keys)
        if repeated := [value for value, times in values.items() if times > 1]:
            raise UserError(f"keys {path!r}: {field} {repeated[0]!r} is there twice; give each key its own")
    return {key.sha256: key for key in keys}


def find_key(keys: Mapping[str, ApiKey], authorization: bytes) -> ApiKey | None:
    """Return the key in an Authorization header; None for an unknown one."""
    scheme, _, secret = authorization.partition(b" ")
    if scheme.lower() != b"bearer":
        return None
    return keys.get(hashlib.sha256(secret.strip()).hexdigest())
