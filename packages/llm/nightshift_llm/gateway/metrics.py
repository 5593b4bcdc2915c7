"""The gateway's Prometheus metrics, `nightshift_gateway_...`."""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily

from nightshift_llm.gateway.budgets import Amount
from nightshift_llm.gateway.fleet import EngineReplica, Fleet
from nightshift_llm.gateway.keys import NANODOLLARS
from nightshift_llm.gateway.ledger import Ledger, Reservation, TokenUsage

TOKEN_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0)
# name, meaning, its value of a replica
GAUGES: tuple[tuple[str, str, Callable[[EngineReplica], float]], ...] = (
    ("requests_in_flight", "requests in progress", lambda replica: replica.running),
    ("replica_healthy", "1 if the replica passes its health checks, else 0", lambda replica: replica.is_healthy),
    ("replica_running", "running requests, as reported", lambda replica: replica.reported.running),
    ("replica_waiting", "queued requests, as reported", lambda replica: replica.reported.waiting),
    ("replica_cache_usage", "share of the KV cache in use, as reported", lambda replica: replica.reported.cache_usage),
)
SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class GatewayMetrics:
    """The counts of one gateway.

    Attributes:
        requests: responses, by status.
        retries: attempts that failed before their first byte, and were repeated elsewhere.
        interruptions: streams that ended with an error event.
        refusals: refused requests, by their code.
    """

    def __init__(self, fleet: Fleet, ledger: Ledger) -> None:
        self._fleet, self._ledger, self._registry = fleet, ledger, CollectorRegistry()
        self.requests = self._count("requests", "responses", "code")
        self.retries = self._count("retries", "retries on another replica")
        self.interruptions = self._count("interruptions", "streams that ended with an error event")
        self.refusals = self._count("refusals", "requests refused by the gateway", "code")
        self._answers = self._count("answers", "answers, by whether the model has declined", "version", "declined")
        self._tokens = self._count("tokens", "tokens charged", "key", "kind")
        self._dollars = self._count("dollars", "cost of the tokens charged", "key")
        self._blocks = self._count("prompt_blocks", "blocks of prompts, by whether they were cached", "cached")
        self._first_byte = self._time("first_byte", "from admission to the first byte of the answer", SECONDS, "stream")
        self._token_time = self._time(
            "token", "time per token, from the first event of a stream to its last", TOKEN_SECONDS
        )
        self._registry.register(self)

    def _count(self, name: str, meaning: str, *labels: str) -> Counter:
        return Counter(f"nightshift_gateway_{name}", meaning, labels, registry=self._registry)

    def _time(self, name: str, meaning: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        name = f"nightshift_gateway_{name}_seconds"
        return Histogram(name, meaning, labels, buckets=buckets, registry=self._registry)

    def count_prompt(self, blocks: int, cached: int) -> None:
        """Count the blocks of a prompt whose answer begins, and those that were probably cached."""
        self._blocks.labels("yes").inc(cached)
        self._blocks.labels("no").inc(blocks - cached)

    def count_first_byte(self, seconds: float, *, is_stream: bool) -> None:
        """Count how long the first byte of an answer took: the first token of a stream, or a whole answer."""
        self._first_byte.labels("yes" if is_stream else "no").observe(seconds)

    def count_stream(self, seconds: float, usage: TokenUsage | None) -> None:
        """Count how long the tokens of a stream took after the first one."""
        if usage and usage.completion_tokens > 1:
            self._token_time.observe(seconds / (usage.completion_tokens - 1))

    def count_answer(self, version: str, *, is_declined: bool) -> None:
        """Count an answer."""
        self._answers.labels(version, "yes" if is_declined else "no").inc()

    def count_tokens(self, reservation: Reservation, usage: TokenUsage | None, used: Amount) -> None:
        """Count the tokens of a settled request, and what they cost; without a usage, those that were reserved."""
        self._dollars.labels(reservation.key).inc(used.nanodollars / NANODOLLARS)
        if usage:
            self._tokens.labels(reservation.key, "prompt").inc(usage.prompt_tokens)
            self._tokens.labels(reservation.key, "completion").inc(usage.completion_tokens)
        else:
            self._tokens.labels(reservation.key, "estimated").inc(used.tokens)

    def render(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the values at the moment of the scrape; prometheus-client calls this."""
        for name, meaning, read in GAUGES:
            gauge = GaugeMetricFamily(f"nightshift_gateway_{name}", meaning, labels=["replica"])
            for replica in self._fleet.replicas.values():
                gauge.add_metric([replica.address.url], read(replica))
            yield gauge
        name, meaning = "nightshift_gateway_requests_waiting", "requests that wait until others return budget"
        waiting = GaugeMetricFamily(name, meaning, labels=["key"])
        for key, requests in self._ledger.count_waiting().items():
            waiting.add_metric([key], requests)
        yield waiting
