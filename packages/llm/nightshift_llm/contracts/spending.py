"""What the keys of a gateway have used, beside their limits."""

from datetime import date

from pydantic import Field

from nightshift.contracts.artifact import Artifact, Part


class KeyUsage(Part):
    """What a key has used on a UTC day."""

    key: str = Field(description="its name")
    day: date
    requests: int
    tokens: int = Field(description="of prompts and completions, and what was charged without a count")
    usd: float = Field(description="US dollars; 0 without prices")
    tokens_per_day: int | None = Field(description="its limit; null where it has none, or is no longer a key")
    dollars_per_day: float | None = Field(description="likewise")
    used: float | None = Field(description="share of the nearer limit, 0 to 1; null without one")


class GatewaySpending(Artifact):
    """What the keys of a gateway have used on its newest days."""

    usage: list[KeyUsage] = Field(description="by day, the oldest first, then key")
