"""What Prometheus has of the requests that vLLM answered, by the pods that did.

A request counts as the upper edge of the bucket of its histogram, and what exceeds the limits below as the limit, so
that what is compared is bounded.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from components.release.verdicts import RequestFigures
from nightshift.stats.sequential import Tally

Query = Callable[[str, datetime], Sequence[Mapping[str, Any]]]  # PromQL, at a time -> an instant vector
FIRST_TOKEN = "time to first token"  # noqa: S105 no password
HISTOGRAMS = {  # metric, and the worst: seconds, seconds, tokens
    FIRST_TOKEN: ("vllm:time_to_first_token_seconds", 5.0),
    "latency": ("vllm:e2e_request_latency_seconds", 60.0),
    "generated tokens": ("vllm:request_generation_tokens", 2000.0),
}
QUANTILE = 0.99


def measure(query: Query, pods: str, since: datetime, until: datetime) -> RequestFigures:
    """Return figures of the requests of some pods; the 99th percentile is of the time to the first token.

    Args:
        query: asks Prometheus.
        pods: regular expression of their names.
        since: from when.
        until: until when.
    """
    window = f'{{pod=~"{pods}"}}[{max(1, round((until - since).total_seconds()))}s]'
    reasons = {
        part["metric"]["finished_reason"]: float(part["value"][1])
        for part in query(f"sum by (finished_reason) (increase(vllm:request_success_total{window}))", until)
    }
    histograms = {
        name: _read_buckets(query(f"sum by (le) (increase({metric}_bucket{window}))", until))
        for name, (metric, _) in HISTOGRAMS.items()
    }
    costs = {
        name: Tally.from_histogram(*histogram, HISTOGRAMS[name][1])
        for name, histogram in histograms.items()
        if sum(histogram[1])
    }
    requests, errors = round(sum(reasons.values())), round(reasons.get("error", 0))
    return RequestFigures(requests, errors, _percentile_ms(*histograms[FIRST_TOKEN]), costs)


def _read_buckets(vector: Sequence[Mapping[str, Any]]) -> tuple[list[float], list[float]]:
    """Return the upper edges of a histogram's buckets, and how many requests are in each."""
    cumulative = sorted((float(part["metric"]["le"]), float(part["value"][1])) for part in vector)
    counts = np.diff([0.0, *(count for _, count in cumulative)]).clip(min=0)
    return [edge for edge, _ in cumulative], counts.tolist()


def _percentile_ms(edges: Sequence[float], counts: Sequence[float]) -> float | None:
    """Return the finite edge below which 99 % of requests are, or the last one, in milliseconds; None without any."""
    total, below = math.fsum(counts), 0.0
    for edge, count in zip(edges, counts, strict=True):
        below += count
        if total and below >= QUANTILE * total:
            return 1000 * (edge if math.isfinite(edge) else edges[-2])
    return None
