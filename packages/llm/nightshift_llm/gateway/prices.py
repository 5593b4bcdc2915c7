"""Prices of model versions in whole nanodollars (1e-9 dollars) per token, so that sums are exact."""

from collections import Counter
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import NamedTuple

import msgspec

from nightshift.runtime.errors import UserError

NANODOLLARS = 1000  # a token, at a dollar per million tokens
MAX_DOLLARS = 1_000_000  # dollars per million tokens


class Rate(NamedTuple):
    """The price of a token in nanodollars.

    Attributes:
        prompt: price of a prompt token.
        completion: price of a completion token.
    """

    prompt: int = 0
    completion: int = 0

    def cost(self, prompt_tokens: int, completion_tokens: int) -> int:
        """Return the cost of tokens in nanodollars."""
        return prompt_tokens * self.prompt + completion_tokens * self.completion

    def at_most(self, other: "Rate") -> "Rate":
        """Return the lower of the two rates, separately for prompts and completions."""
        return Rate(min(self.prompt, other.prompt), min(self.completion, other.completion))


class VersionPrice(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """The price of a version in the file.

    Attributes:
        version: version in the replica's address; without one, the model's name.
        prompt: dollars per million tokens of prompts.
        completion: dollars per million tokens of completions.
    """

    version: str
    prompt: Decimal
    completion: Decimal


class Prices:
    """The rates of all versions."""

    def __init__(self, rates: Mapping[str, Rate] | None = None) -> None:
        """Keep the rates by version; without any, all tokens are free."""
        self._rates = rates or {}
        self._highest = _find_highest(self._rates.values())

    def find_rate(self, version: str) -> Rate:
        """Return the rate of a version; one without a price costs as much as the most expensive."""
        return self._rates.get(version, self._highest)

    def find_highest(self, versions: Iterable[str]) -> Rate:
        """Return the highest rates of some versions, for prompts and for completions."""
        return _find_highest(map(self.find_rate, versions))


def parse_prices(path: str, text: bytes) -> Prices:
    """Return the prices of a file in YAML.

    Raises:
        UserError: naming the file, the field and what is allowed.
    """
    try:
        prices = msgspec.yaml.decode(text, type=list[VersionPrice])
    except (msgspec.DecodeError, ValueError) as error:
        raise UserError(f"prices {path!r}: {error}; see packages/llm/docs/gateway.md for an example") from None
    if not prices:
        raise UserError(f"prices {path!r} has none, so that no budget would be spent; give one of every version")
    versions = Counter(price.version for price in prices)
    if repeated := [version for version, times in versions.items() if times > 1]:
        raise UserError(f"prices {path!r}: version {repeated[0]!r} is there twice; give each version one price")
    return Prices(
        {
            price.version: Rate(
                _to_nanodollars(path, "prompt", price.prompt), _to_nanodollars(path, "completion", price.completion)
            )
            for price in prices
        }
    )


def _to_nanodollars(path: str, field: str, price: Decimal) -> int:
    if not price.is_finite() or not 0 <= price <= MAX_DOLLARS or price * NANODOLLARS % 1:
        raise UserError(f"prices {path!r}: {field} is {price}; give a multiple of 0.001, from 0 to {MAX_DOLLARS}")
    return int(price * NANODOLLARS)


def _find_highest(rates: Iterable[Rate]) -> Rate:
    prompts, completions = zip(*rates, strict=True) if (rates := list(rates)) else ((0,), (0,))
    return Rate(max(prompts), max(completions))
