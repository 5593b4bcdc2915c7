"""What a load test of streams prints: how soon tokens came, how fast, and how many requests were served well."""

from pydantic import Field

from nightshift.contracts.artifact import Artifact, Part


class LatencyQuantiles(Part):
    """In milliseconds; null without a value."""

    p50: float | None
    p90: float | None
    p99: float | None
    p99_interval: tuple[float, float | None] | None = Field(
        description="95 % interval of the 99th percentile; high is null where there are too few values"
    )


class StreamPoint(Part):
    """One rate: what was sent and what came back."""

    offered: float = Field(description="requests a second that were due")
    sent: int = Field(description="requests")
    completed: int = Field(description="streams that ended as they should")
    errors: dict[str, int] = Field(
        description="the others: HTTP status, `connection`, `error` event, `cut` before the end, `unanswered`"
    )
    seconds: float = Field(description="from the start to the last byte")
    prompt_tokens: int = Field(description="of the completed streams, as the server counts them")
    output_tokens: int = Field(description="the same of their answers")
    output_tokens_per_second: float
    goodput: float = Field(description="completed requests a second that kept both limits")
    first_token_ms: LatencyQuantiles = Field(description="since a request was due")
    per_token_ms: LatencyQuantiles = Field(description="of each stream: from the first token to the last, by token")
    gap_ms: LatencyQuantiles = Field(description="between two pieces of a stream that hold text")
    total_ms: LatencyQuantiles = Field(description="from the time a request was due to the end of its stream")
    late_ms: LatencyQuantiles = Field(description="how late the client sent: its own share of the latencies")


class StreamLoadTest(Artifact):
    """A server of a language model under load."""

    url: str
    model: str = Field(description="as requests name it")
    seed: int = Field(description="of times, lengths and texts")
    prompt_lengths: str = Field(description="distribution, in words")
    output_lengths: str = Field(description="distribution, in tokens")
    first_token_limit_ms: float
    per_token_limit_ms: float
    points: list[StreamPoint]
