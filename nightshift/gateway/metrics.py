"""The gateway's Prometheus metrics, `nightshift_gateway_...`."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily

from nightshift.gateway.fleet import Fleet
from nightshift.gateway.ledger import Reservation, TokenUsage

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class GatewayMetrics:
    """The counts of one gateway.

    Attributes:
        requests: responses, by status.
        retries: attempts that failed before their first byte, and were repeated elsewhere.
        interruptions: streams that ended with an error event.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet, self._registry = fleet, CollectorRegistry()
        self.requests = self._count("requests", "responses", "code")
        self.retries = self._count("retries", "attempts that were repeated at another replica")
        self.interruptions = self._count("interruptions", "streams that ended with an error event")
        self._tokens = self._count("tokens", "tokens charged", "key", "kind")
        self._blocks = self._count("prompt_blocks", "blocks of prompts, and whether they were cached", "cached")
        self._first_byte = Histogram(
            "nightshift_gateway_first_byte_seconds",
            "time from the admission of a request to the first byte of its answer",
            buckets=SECONDS,
            registry=self._registry,
        )
        self._registry.register(self)

    def _count(self, name: str, meaning: str, *labels: str) -> Counter:
        return Counter(f"nightshift_gateway_{name}", meaning, labels, registry=self._registry)

    def count_first_byte(self, blocks: int, cached: int, seconds: float) -> None:
        """Count an answer that begins: blocks of its prompt, those that were probably cached, and its delay."""
        self._blocks.labels("yes").inc(cached)
        self._blocks.labels("no").inc(blocks - cached)
        self._first_byte.observe(seconds)

    def count_tokens(self, reservation: Reservation, usage: TokenUsage | None) -> None:
        """Count the tokens of a settled request; without a usage, those that were reserved."""
        if usage:
            self._tokens.labels(reservation.key, "prompt").inc(usage.prompt_tokens)
            self._tokens.labels(reservation.key, "completion").inc(usage.completion_tokens)
        else:
            self._tokens.labels(reservation.key, "estimated").inc(reservation.tokens)

    def render(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the values at the moment of the scrape; prometheus-client calls this."""
        running = GaugeMetricFamily("nightshift_gateway_requests_in_flight", "requests in progress", labels=["replica"])
        healthy = GaugeMetricFamily("nightshift_gateway_replica_healthy", "1: it answers", labels=["replica"])
        for replica in self._fleet.replicas.values():
            running.add_metric([replica.address.url], replica.running)
            healthy.add_metric([replica.address.url], replica.is_healthy)
        yield from (running, healthy)
