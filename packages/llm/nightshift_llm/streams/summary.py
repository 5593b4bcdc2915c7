"""Summarizes records of streams: quantiles, errors, and goodput under limits."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from nightshift.stats import latency
from nightshift_llm.contracts.streams import LatencyQuantiles, StreamPoint
from nightshift_llm.streams.client import StreamRecord


@dataclass(frozen=True)
class StreamLimits:
    """The latency limits of goodput, in milliseconds.

    Attributes:
        first_token: from the scheduled time to the first token.
        per_token: time per token, from the first token to the last.
    """

    first_token: float
    per_token: float

    def keeps(self, record: StreamRecord) -> bool:
        """Return whether a completed stream kept both; one of a single token has no time per token."""
        first, later = first_token_seconds(record), seconds_per_token(record)
        return first * 1000 <= self.first_token and (later is None or later * 1000 <= self.per_token)


def first_token_seconds(record: StreamRecord) -> float:
    """Return the time to the first token, since the request was due; to the end of a stream without any."""
    return (record.pieces[0] if record.pieces else record.ended) - record.due


def seconds_per_token(record: StreamRecord) -> float | None:
    """Return the time from the first token to the last, by token; None where there is only one.

    A piece may hold several tokens, so the server's count is used where it reports one.
    """
    tokens = record.usage.completion_tokens or len(record.pieces)
    if tokens < 2 or not record.pieces:
        return None
    return (record.pieces[-1] - record.pieces[0]) / (tokens - 1)


def summarize(records: Sequence[StreamRecord], rate: float, limits: StreamLimits) -> StreamPoint:
    """Return the figures of a measurement.

    Args:
        records: records of all its requests, at least one.
        rate: requests per second that were due.
        limits: limits of the goodput.
    """
    completed = [record for record in records if record.error is None]
    per_token = [seconds for record in completed if (seconds := seconds_per_token(record)) is not None]
    seconds = max(record.ended for record in records) - min(record.due for record in records)
    tokens = sum(record.usage.completion_tokens for record in completed)
    return StreamPoint(
        offered=rate,
        sent=len(records),
        completed=len(completed),
        errors=dict(Counter(record.error for record in records if record.error)),
        seconds=seconds,
        prompt_tokens=sum(record.usage.prompt_tokens for record in completed),
        output_tokens=tokens,
        output_tokens_per_second=tokens / seconds,
        goodput=sum(map(limits.keeps, completed)) / seconds,
        first_token_ms=quantiles(map(first_token_seconds, completed)),
        per_token_ms=quantiles(per_token),
        gap_ms=quantiles(np.concatenate([[], *(np.diff(record.pieces) for record in completed)])),
        total_ms=quantiles(record.ended - record.due for record in completed),
        late_ms=quantiles(record.sent - record.due for record in records if record.sent is not None),
    )


def quantiles(seconds: Iterable[float]) -> LatencyQuantiles:
    """Return quantiles of some times, in milliseconds."""
    ordered = np.sort(np.fromiter(seconds, np.float64)) * 1000
    p50, p90, p99 = (latency.quantile(ordered, share) for share in (0.5, 0.9, 0.99))
    return LatencyQuantiles(p50=p50, p90=p90, p99=p99, p99_interval=latency.interval(ordered, 0.99))
