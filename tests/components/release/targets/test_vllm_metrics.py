"""Figures of requests, out of a real Prometheus."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from subprocess import run

import pytest

from components.release.targets import factory, vllm_metrics
from nightshift.runtime.errors import UnavailableError
from nightshift_testkit.prometheus import program, running

pytestmark = pytest.mark.slow

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
PODS = "chat-2-kserve-[0-9a-z]+-[0-9a-z]+"
# cumulative, at the end of an hour
BUCKETS = {"0.1": 600.0, "1.0": 1200.0, "10.0": 1800.0, "+Inf": 1800.0}
REASONS = {"stop": 1740.0, "error": 60.0}


def series(pod: str, factor: float) -> list[str]:
    """OpenMetrics of a pod whose requests come at a steady rate."""
    counts = {f'time_to_first_token_seconds_bucket{{pod="{pod}",le="{edge}"}}': n for edge, n in BUCKETS.items()}
    counts |= {f'request_success_total{{pod="{pod}",finished_reason="{reason}"}}': n for reason, n in REASONS.items()}
    return [
        f"vllm:{name} {factor * count * minute / 60} {(BEGAN + timedelta(minutes=minute)).timestamp()}"
        for name, count in counts.items()
        for minute in range(61)
    ]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus that has an hour of two pods of a version, and of one of another."""
    folder = tmp_path_factory.mktemp("prometheus")
    pods = {"chat-2-kserve-6b7c-x2x9z": 1.0, "chat-2-kserve-6b7c-q8q4r": 0.5, "chat-1-kserve-5d4f-a1b2c": 9.0}
    lines = [line for pod, factor in pods.items() for line in series(pod, factor)]
    (folder / "metrics").write_text("\n".join([*lines, "# EOF\n"]))
    (folder / "prometheus.yaml").write_text("")
    run([program("promtool"), "tsdb", "create-blocks-from", "openmetrics", "metrics", "data"], cwd=folder, check=True)
    options = (f"--config.file={folder}/prometheus.yaml", f"--storage.tsdb.path={folder}/data")
    with running("prometheus", *options, "--storage.tsdb.retention.time=10y") as server:
        yield server


def test_requests_errors_latency_and_costs_are_those_of_the_versions_pods_in_that_time(url: str) -> None:
    query = partial(factory.query_prometheus, url)
    figures = vllm_metrics.measure(query, PODS, BEGAN + timedelta(minutes=20), BEGAN + timedelta(minutes=40))
    assert figures.requests == pytest.approx(900, rel=0.01)
    assert figures.errors == pytest.approx(30, rel=0.01)
    assert figures.p99_ms == 10_000
    tally = figures.costs.pop("time to first token")
    # a third each of 0.1 s, 1 s, and what counts as 5 s, the worst
    assert tally.count == pytest.approx(900, rel=0.01)
    assert tally.total / tally.count == pytest.approx((0.02 + 0.2 + 1) / 3, rel=0.01)
    assert tally.squares / tally.count == pytest.approx((0.02**2 + 0.2**2 + 1) / 3, rel=0.01)
    assert figures.costs == {}


def test_a_version_that_has_answered_nothing_has_no_figures_but_zeros(url: str) -> None:
    figures = vllm_metrics.measure(partial(factory.query_prometheus, url), "chat-3-.*", BEGAN, BEGAN)
    assert figures == vllm_metrics.RequestFigures(0, 0, None, {})


def test_a_prometheus_that_does_not_answer_ends_with_1(url: str) -> None:
    for address, query in ((url, "sum("), ("http://127.0.0.1:1", "up")):
        with pytest.raises(UnavailableError, match=rf"Prometheus at {address} does not answer .*; run it again"):
            factory.query_prometheus(address, query, BEGAN)
