"""What the endpoint shows Prometheus, of a real server that has answered real requests."""

import math
import subprocess
from dataclasses import replace
from typing import Any

import httpx
import pytest

from nightshift import storage
from nightshift_testkit.prometheus import program, samples
from tests.nightshift.serving.conftest import Running

GOOD = {"amount": 1.0, "customer_count_1d": 2.0, "channel": "shop"}
HIGH = GOOD | {"amount": 1000.0}


def shown(running: Running) -> dict[str, float]:
    """What the endpoint exposes of `fraud`, its other labels in their order behind the name."""
    values = {}
    for (name, labels), value in samples(f"{running.url}/metrics").items():
        if (rest := dict(labels)).pop("use_case", None) == "fraud":
            values[" ".join([name, *(rest[key] for key in sorted(rest))])] = value
    return values


def ask(running: Running, *instances: dict[str, Any]) -> httpx.Response:
    return httpx.post(f"{running.url}/score", json={"instances": instances})


def test_requests_are_counted_by_route_and_code_and_timed(running) -> None:
    before = shown(running)
    ask(running, GOOD)
    ask(running, HIGH, GOOD)
    assert ask(running, {"amount": "x"}).status_code == 400
    httpx.get(f"{running.url}/made/up")

    after = shown(running)

    def more(name: str) -> float:
        return after[name] - before.get(name, 0.0)

    assert more("nightshift_endpoint_requests_total 200 /score") == 2
    assert more("nightshift_endpoint_requests_total 400 /score") == 1
    assert more("nightshift_endpoint_requests_total 404 none") == 1
    assert more("nightshift_endpoint_request_seconds_count /score") == 3
    assert 0 < more("nightshift_endpoint_request_seconds_sum /score") < 30
    assert after["nightshift_endpoint_requests_in_flight"] == 1  # the scrape


def test_scores_are_counted_into_bins_and_flagged_rows_too(running) -> None:
    before = shown(running)
    low, high = (prediction["score"] for prediction in ask(running, GOOD, HIGH).json()["predictions"])

    after = {name: value - before.get(name, 0.0) for name, value in shown(running).items()}

    edge = f"{math.ceil(low * 20) / 20:g}"
    assert after[f"nightshift_endpoint_score_bucket {edge}"] == 1
    assert after["nightshift_endpoint_score_bucket +Inf"] == 2
    assert after["nightshift_endpoint_score_count"] == 2
    assert after["nightshift_endpoint_score_sum"] == pytest.approx(low + high)
    assert after["nightshift_endpoint_flagged_rows_total"] == (low >= 0.5) + (high >= 0.5)


def test_the_version_that_answers_is_shown_and_that_it_is_not_the_one_that_should(serve) -> None:
    running = serve()
    pointer = running.current.wanted
    assert shown(running)[f"nightshift_endpoint_model_info logistic_regression {pointer.sha256} 1"] == 1
    assert shown(running)["nightshift_endpoint_degraded"] == 0

    storage.write_json(str(running.pointer), vars(replace(pointer, version=2, uri="/nowhere")))
    running.current.refresh()

    assert shown(running)["nightshift_endpoint_degraded"] == 1
    assert shown(running)[f"nightshift_endpoint_model_info logistic_regression {pointer.sha256} 1"] == 1


@pytest.mark.slow
def test_prometheus_own_linter_has_nothing_to_say(running) -> None:
    page = httpx.get(f"{running.url}/metrics").text

    done = subprocess.run([program("promtool"), "check", "metrics"], input=page, capture_output=True, text=True)

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
