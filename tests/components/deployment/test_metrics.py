"""What the endpoint shows Prometheus, of a real server that has answered real requests."""

import asyncio
import math
import subprocess
from dataclasses import replace
from typing import Any

import httpx
import pytest

from components.common import storage
from components.deployment import server
from components.deployment.metrics import Counted, Metrics
from tests.processes import wait_until
from tests.prometheus import program, samples

GOOD = {"amount": 1.0, "customer_count_1d": 2.0, "channel": "shop"}
HIGH = GOOD | {"amount": 1000.0}


def shown(state: server.State) -> dict[str, float]:
    """What the endpoint exposes of `fraud`, its other labels in their order behind the name."""
    found = {}
    for (name, labels), value in samples(f"{state.url}/metrics").items():
        if (rest := dict(labels)).pop("use_case", None) == "fraud":
            found[" ".join([name, *(rest[key] for key in sorted(rest))])] = value
    return found


def ask(state: server.State, *instances: dict[str, Any]) -> httpx.Response:
    return httpx.post(f"{state.url}/v1/score", json={"instances": instances})


def test_requests_are_counted_by_route_and_code_and_timed(serve) -> None:
    state = serve(1)
    before = shown(state)
    ask(state, GOOD)
    ask(state, HIGH, GOOD)
    assert ask(state, {"amount": "x"}).status_code == 400
    httpx.get(f"{state.url}/made/up")

    after = shown(state)

    def more(name: str) -> float:
        return after[name] - before.get(name, 0.0)

    assert more("nightshift_endpoint_requests_total 200 /v1/score") == 2
    assert more("nightshift_endpoint_requests_total 400 /v1/score") == 1
    assert more("nightshift_endpoint_requests_total 404 none") == 1
    assert more("nightshift_endpoint_request_seconds_count /v1/score") == 3
    assert 0 < more("nightshift_endpoint_request_seconds_sum /v1/score") < 30
    assert after["nightshift_endpoint_requests_in_flight"] == 1  # the scrape


def test_scores_are_counted_into_bins_and_flagged_rows_too(serve) -> None:
    state = serve(1)
    before = shown(state)
    low, high = (each["score"] for each in ask(state, GOOD, HIGH).json()["predictions"])

    after = {name: value - before.get(name, 0.0) for name, value in shown(state).items()}

    edge = f"{math.ceil(low * 20) / 20:g}"
    assert after[f"nightshift_endpoint_score_bucket {edge}"] == 1
    assert after["nightshift_endpoint_score_bucket +Inf"] == 2
    assert after["nightshift_endpoint_score_count"] == 2
    assert after["nightshift_endpoint_score_sum"] == pytest.approx(low + high)
    assert after["nightshift_endpoint_flagged_rows_total"] == (low >= 0.5) + (high >= 0.5)


def test_the_version_that_answers_is_shown_and_that_it_is_not_the_one_that_should(stocked, serve) -> None:
    state = serve(1)
    uri = server.pointer_uri(stocked, "fraud")
    pointer = server.Pointer(**storage.read_json(uri))
    assert shown(state)[f"nightshift_endpoint_model_info logistic_regression {pointer.sha256} 1"] == 1
    assert shown(state)["nightshift_endpoint_degraded"] == 0

    storage.write_json(uri, vars(replace(pointer, version=2, uri="/nowhere")))
    wait_until(lambda: httpx.get(f"{state.url}/healthz").json()["status"] != "ok", "the endpoint is degraded")

    assert shown(state)["nightshift_endpoint_degraded"] == 1
    assert shown(state)[f"nightshift_endpoint_model_info logistic_regression {pointer.sha256} 1"] == 1


def test_prometheus_own_linter_has_nothing_to_say(serve) -> None:
    page = httpx.get(f"{serve(1).url}/metrics").text

    done = subprocess.run([program("promtool"), "check", "metrics"], input=page, capture_output=True, text=True)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_request_that_breaks_the_application_counts_as_500() -> None:
    async def broken(*_: Any) -> None:
        raise ZeroDivisionError

    metrics = Metrics("fraud", lambda: ({"version": "1"}, False))
    with pytest.raises(ZeroDivisionError):
        asyncio.run(Counted(broken, metrics)({"type": "http"}, None, None))

    assert 'requests_total{code="500",route="none",use_case="fraud"} 1.0' in metrics.page().decode()
