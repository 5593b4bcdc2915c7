"""What the endpoint shows Prometheus, as `nightshift_endpoint_...` with the label `use_case`.

All of it is counted and shown in the server's one event loop, so no number needs a lock; prometheus-client's own
counters, which have one each, would take a tenth of a request's time.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

Floats = npt.NDArray[np.floating[Any]]
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)  # inclusive upper edges, as below
SCORES = np.linspace(0.05, 1.0, 20)
PENDING = 1024  # requests whose scores are counted at once: one by one a thousand would take 20 ms


class Metrics:
    """The counts of one endpoint.

    Attributes:
        in_flight: requests in progress.
    """

    def __init__(self, name: str, describe: Callable[[], tuple[dict[str, str], bool]]) -> None:
        """Begin at zero.

        Args:
            name: the registered model, which is the use case.
            describe: gives the labels of the version that answers, and whether another one should.
        """
        self.in_flight = 0
        self._name, self._describe = name, describe
        self._requests: Counter[tuple[str, int]] = Counter()
        self._seconds: defaultdict[str, _Histogram] = defaultdict(lambda: _Histogram(SECONDS))
        self._scores, self._flagged = _Histogram(SCORES.tolist()), 0
        self._pending: list[tuple[Floats, float]] = []
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    def answered(self, route: str, code: int, seconds: float) -> None:
        """Count a request."""
        self._requests[route, code] += 1
        self._seconds[route].add(seconds)

    def scored(self, scores: Floats, threshold: float) -> None:
        """Count the rows of a request, float of shape (n,)."""
        self._pending.append((scores, threshold))
        if len(self._pending) >= PENDING:
            self._count_pending()

    def _count_pending(self) -> None:
        if not self._pending:
            return
        parts, thresholds = zip(*self._pending, strict=True)
        scores = np.concatenate(parts)
        self._flagged += int(np.count_nonzero(scores >= np.repeat(thresholds, [len(part) for part in parts])))
        self._scores.add_all(scores)
        self._pending.clear()

    def page(self) -> bytes:
        """Return all of it in Prometheus' text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Any]:
        """Yield the families, as prometheus-client asks a collector."""
        self._count_pending()
        labels, name = ["use_case"], self._name
        requests = CounterMetricFamily(
            "nightshift_endpoint_requests", "requests answered", labels=[*labels, "route", "code"]
        )
        for (route, code), number in self._requests.items():
            requests.add_metric([name, route, str(code)], number)
        seconds = HistogramMetricFamily(
            "nightshift_endpoint_request_seconds", "time to answer", labels=[*labels, "route"]
        )
        for route, histogram in self._seconds.items():
            seconds.add_metric([name, route], histogram.buckets(), histogram.total)
        scores = HistogramMetricFamily("nightshift_endpoint_score", "scores answered", labels=labels)
        scores.add_metric([name], self._scores.buckets(), self._scores.total)
        flagged = CounterMetricFamily(
            "nightshift_endpoint_flagged_rows", "rows at or above the threshold", labels=labels
        )
        flagged.add_metric([name], self._flagged)
        yield from (requests, seconds, scores, flagged)
        yield from self._state()

    def _state(self) -> Iterator[Any]:
        """Yield what is so at the scrape."""
        version, is_degraded = self._describe()
        gauges = {
            "requests_in_flight": ("requests in progress", {}, self.in_flight),
            "model_info": ("the version that answers", version, 1),
            "degraded": ("1: it cannot load the version it should serve", {}, int(is_degraded)),
        }
        for name, (meaning, labels, value) in gauges.items():
            family = GaugeMetricFamily(f"nightshift_endpoint_{name}", meaning, labels=["use_case", *labels])
            family.add_metric([self._name, *labels.values()], value)
            yield family


class _Histogram:
    """Counts by inclusive upper edges, and one for all above."""

    def __init__(self, edges: "tuple[float, ...] | list[float]") -> None:
        self._edges = edges
        self._counts = [0] * (len(edges) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._edges, value)] += 1
        self.total += value

    def add_all(self, values: Floats) -> None:
        found = np.bincount(np.searchsorted(self._edges, values), minlength=len(self._counts))
        self._counts = [before + more for before, more in zip(self._counts, found.tolist(), strict=True)]
        self.total += float(values.sum(dtype=np.float64))

    def buckets(self) -> list[tuple[str, float]]:
        """Return the edges with the number of values up to each."""
        edges = [*(f"{edge:g}" for edge in self._edges), "+Inf"]
        return list(zip(edges, accumulate(map(float, self._counts)), strict=True))
