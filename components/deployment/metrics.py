"""What the endpoint shows Prometheus, as `nightshift_endpoint_...` with the label `use_case`."""

import threading
import time
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, HistogramMetricFamily

Scope = MutableMapping[str, Any]
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
        self._requests = counted("nightshift_endpoint_requests", "requests answered", [*by_route, "code"])
        self._flagged = counted("nightshift_endpoint_flagged_rows", "rows at or above the threshold", ["use_case"])
        self._seconds = Histogram(
            "nightshift_endpoint_request_seconds", "time to answer", by_route, buckets=SECONDS, registry=self.registry
        )
        in_flight = Gauge(
            "nightshift_endpoint_requests_in_flight", "requests in progress", ["use_case"], registry=self.registry
        )
        self.in_flight = in_flight.labels(name)
        self._scores = _Scores(name)
        self._name = name
        self.registry.register(self._scores)
        self.registry.register(_Model(name, describe))
        ProcessCollector(registry=self.registry)

    def answered(self, route: str, code: int, seconds: float) -> None:
        """Count a request."""
        self._requests.labels(self._name, route, code).inc()
        self._seconds.labels(self._name, route).observe(seconds)

    def scored(self, predictions: Sequence[dict[str, float | bool]]) -> None:
        """Count the rows of a request."""
        self._flagged.labels(self._name).inc(sum(each["flagged"] for each in predictions))
        self._scores.add(np.array([each["score"] for each in predictions]))

    def page(self) -> bytes:
        """Return all of it in Prometheus' text format."""
        return generate_latest(self.registry)


class Counted:
    """An ASGI application whose requests are counted."""

    def __init__(self, app: Any, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Answer a request; one that fails without an answer counts as 500."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        code, started = 500, time.perf_counter()

        async def noting(message: Scope) -> None:
            nonlocal code
            code = message.get("status", code)
            await send(message)

        try:
            with self._metrics.in_flight.track_inprogress():
                await self._app(scope, receive, noting)
        finally:
            # not the path, which whoever calls can make up without end
            route = getattr(scope.get("route"), "path", "none")
            self._metrics.answered(route, code, time.perf_counter() - started)


class _Scores:
    """A histogram that takes an array at once; prometheus-client's takes a number at a time, a thousand in 1 ms."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._counts = np.zeros(len(SCORES) + 1, np.int64)
        self._sum = 0.0

    def add(self, scores: "np.ndarray[Any, np.dtype[np.float64]]") -> None:
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
