"""What the endpoint shows Prometheus, as `nightshift_endpoint_...` with the label `use_case`."""

import threading
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily

Floats = npt.NDArray[np.floating[Any]]
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
SCORES = np.linspace(0.05, 1.0, 20)  # inclusive upper edges


class Metrics:
    """The counts of one endpoint."""

    def __init__(self, name: str, describe: Callable[[], tuple[dict[str, str], bool]]) -> None:
        """Begin at zero.

        Args:
            name: the registered model, which is the use case.
            describe: gives the labels of the version that answers, and whether another one should.
        """
        self.registry = CollectorRegistry()
        counted, by_route = partial(Counter, registry=self.registry), ["use_case", "route"]
        requests = counted("nightshift_endpoint_requests", "requests answered", [*by_route, "code"])
        seconds = Histogram(
            "nightshift_endpoint_request_seconds", "time to answer", by_route, buckets=SECONDS, registry=self.registry
        )
        # found once per route and code, since finding one takes longer than counting
        self._requests = cache(partial(requests.labels, name))
        self._seconds = cache(partial(seconds.labels, name))
        flagged = counted("nightshift_endpoint_flagged_rows", "rows at or above the threshold", ["use_case"])
        self._flagged = flagged.labels(name)
        in_flight = Gauge(
            "nightshift_endpoint_requests_in_flight", "requests in progress", ["use_case"], registry=self.registry
        )
        self.in_flight = in_flight.labels(name)
        self._scores = _Scores(name)
        self.registry.register(self._scores)
        self.registry.register(_Model(name, describe))
        ProcessCollector(registry=self.registry)

    def answered(self, route: str, code: int, seconds: float) -> None:
        """Count a request."""
        self._requests(route, code).inc()
        self._seconds(route).observe(seconds)

    def scored(self, scores: Floats, threshold: float) -> None:
        """Count the rows of a request, float of shape (n,)."""
        self._flagged.inc(int(np.count_nonzero(scores >= threshold)))
        self._scores.add(scores)

    def page(self) -> bytes:
        """Return all of it in Prometheus' text format."""
        return generate_latest(self.registry)


class _Scores:
    """A histogram that takes an array at once; prometheus-client's takes a number at a time, a thousand in 1 ms."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._counts = np.zeros(len(SCORES) + 1, np.int64)
        self._sum = 0.0

    def add(self, scores: Floats) -> None:
        counts = np.bincount(np.searchsorted(SCORES, scores), minlength=len(self._counts))
        with self._lock:
            self._counts += counts
            self._sum += float(scores.sum())

    def collect(self) -> Iterator[Any]:
        with self._lock:
            below, total = self._counts.cumsum(), self._sum
        edges = [*(f"{edge:g}" for edge in SCORES), "+Inf"]
        family = HistogramMetricFamily("nightshift_endpoint_score", "scores answered", labels=["use_case"])
        family.add_metric([self._name], list(zip(edges, below.tolist(), strict=True)), total)
        yield family


class _Model:
    """The version that answers, as it is at the scrape."""

    def __init__(self, name: str, describe: Callable[[], tuple[dict[str, str], bool]]) -> None:
        self._name = name
        self._describe = describe

    def collect(self) -> Iterator[Any]:
        labels, degraded = self._describe()
        names, values = ["use_case", *labels], [self._name, *labels.values()]
        info = GaugeMetricFamily("nightshift_endpoint_model_info", "the version that answers", labels=names)
        info.add_metric(values, 1)
        yield info
        state = GaugeMetricFamily(
            "nightshift_endpoint_degraded", "1: it cannot load the version it should serve", labels=["use_case"]
        )
        state.add_metric([self._name], float(degraded))
        yield state
