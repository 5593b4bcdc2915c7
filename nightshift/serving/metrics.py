"""The endpoint's Prometheus metrics, `nightshift_endpoint_...` with the label `use_case`, summed over its workers.

A worker counts in its one event loop, so no number needs a lock; prometheus-client's counters, with one lock each,
would take a tenth of a request's time.
"""

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from itertools import accumulate, product
from typing import Any

import numpy as np
import numpy.typing as npt
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from nightshift.serving.versions import Model
from nightshift.serving.workers import SharedCounters

Floats = npt.NDArray[np.floating[Any]]
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)  # inclusive upper edges, as below
SCORE_BINS = 20  # bins of equal width, up to the highest score of the task
PENDING_SECONDS = 1.0
PENDING = 1024  # requests whose scores are counted together: one by one they would take 20 ms


@dataclass(frozen=True)
class _Histogram:
    """Slots of a histogram: the counts by inclusive upper edge, the count above them, the sum."""

    edges: tuple[float, ...]
    slot: int

    @property
    def end(self) -> int:
        """Slot of the sum."""
        return self.slot + len(self.edges) + 1

    def buckets(self, counts: npt.NDArray[np.int64]) -> list[tuple[str, float]]:
        """Return (edge, number of values up to it)."""
        names = [*(f"{edge:g}" for edge in self.edges), "+Inf"]
        return list(zip(names, accumulate(map(float, counts[self.slot : self.end])), strict=True))


class EndpointMetrics:
    """The counts of one endpoint."""

    def __init__(
        self,
        model: Model,
        describe: Callable[[], tuple[dict[str, str], bool]],
        routes: Iterable[str],
        counters: SharedCounters,
    ) -> None:
        """Continue the counts of this worker's predecessor.

        Args:
            model: any version of the model; its name is the use case.
            describe: returns the labels of the serving version, and whether another one should serve.
            routes: all routes, in the same order in every worker.
            counters: memory that the workers share.
        """
        self._name, self._describe, self._counters = model.name, describe, counters
        self._counts, self._sums = counters.counts, counters.sums
        self._in_flight, self._flagged = 1, 2
        highest = model.package.preprocessing.highest_score
        self._scores = _Histogram(tuple(np.linspace(highest / SCORE_BINS, highest, SCORE_BINS).tolist()), 3)
        self._seconds: dict[str, _Histogram] = {}
        slot = self._scores.end + 1
        for route in routes:
            self._seconds[route] = _Histogram(SECONDS, slot)
            slot = self._seconds[route].end + 1
        self._requests = {key: slot + i for i, key in enumerate(product(self._seconds, map(int, HTTPStatus)))}
        self._counts[self._in_flight] = 0
        self._pending: list[tuple[Floats, float]] = []
        self._registry = CollectorRegistry()
        self._registry.register(self)
        if counters.workers == 1:  # a page could describe only one of several workers
            ProcessCollector(registry=self._registry)

    def count_start(self) -> None:
        """Count a request as in progress."""
        self._counts[self._in_flight] += 1

    def count_answer(self, route: str, code: int, seconds: float) -> None:
        """Count a request as answered."""
        histogram = self._seconds[route]
        self._counts[self._in_flight] -= 1
        self._counts[self._requests[route, code]] += 1
        self._counts[histogram.slot + bisect_left(SECONDS, seconds)] += 1
        self._sums[histogram.end] += seconds

    def count_scores(self, scores: Floats, threshold: float) -> None:
        """Count the rows of a request, float of shape (n,)."""
        if not self._pending:  # briefly: another worker may serve the page
            asyncio.get_running_loop().call_later(PENDING_SECONDS, self._count_pending)
        self._pending.append((scores, threshold))
        if len(self._pending) >= PENDING:
            self._count_pending()

    def _count_pending(self) -> None:
        if not self._pending:
            return
        parts, thresholds = zip(*self._pending, strict=True)
        scores = np.concatenate(parts)
        self._counts[self._flagged] += int(
            np.count_nonzero(scores >= np.repeat(thresholds, [len(part) for part in parts]))
        )
        counts = np.bincount(np.searchsorted(self._scores.edges, scores), minlength=SCORE_BINS + 1)
        for slot, more in enumerate(counts.tolist(), self._scores.slot):
            self._counts[slot] += more
        self._sums[self._scores.end] += float(scores.sum(dtype=np.float64))
        self._pending.clear()

    def render(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Any]:
        """Yield the metric families; prometheus-client calls this."""
        self._count_pending()
        counts, sums = self._counters.total_counts(), self._counters.total_sums()
        labels, name = ["use_case"], self._name
        requests = CounterMetricFamily(
            "nightshift_endpoint_requests", "requests answered", labels=[*labels, "route", "code"]
        )
        for (route, code), slot in self._requests.items():
            if counts[slot]:
                requests.add_metric([name, route, str(code)], counts[slot])
        seconds = HistogramMetricFamily(
            "nightshift_endpoint_request_seconds", "time to answer", labels=[*labels, "route"]
        )
        for route, histogram in self._seconds.items():
            if counts[histogram.slot : histogram.end].any():
                seconds.add_metric([name, route], histogram.buckets(counts), sums[histogram.end])
        scores = HistogramMetricFamily("nightshift_endpoint_score", "scores answered", labels=labels)
        scores.add_metric([name], self._scores.buckets(counts), sums[self._scores.end])
        flagged = CounterMetricFamily(
            "nightshift_endpoint_flagged_rows", "rows at or above the threshold", labels=labels
        )
        flagged.add_metric([name], counts[self._flagged])
        yield from (requests, seconds, scores, flagged)
        yield from self._collect_gauges(int(counts[self._in_flight]))

    def _collect_gauges(self, in_flight: int) -> Iterator[Any]:
        """Yield the values at the moment of the scrape."""
        version, is_degraded = self._describe()
        gauges = {
            "requests_in_flight": ("requests in progress", {}, in_flight),
            "model_info": ("the version that answers", version, 1),
            "degraded": ("1: it cannot load the version it should serve", {}, int(is_degraded)),
        }
        for name, (meaning, labels, value) in gauges.items():
            family = GaugeMetricFamily(f"nightshift_endpoint_{name}", meaning, labels=["use_case", *labels])
            family.add_metric([self._name, *labels.values()], value)
            yield family
