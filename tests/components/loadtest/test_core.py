"""Schedules, percentiles, capacity, choice, verdict, costs."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from components.loadtest import core
from components.loadtest.core import Load, LoadSample
from nightshift.contracts.loadtest import LoadTest, Point, ServerSettings
from nightshift.contracts.preprocessing import Inputs
from nightshift.contracts.verdict import Decision, Measure
from nightshift.costs.prices import Machine
from nightshift.runtime.errors import UserError
from nightshift.tasks.tabular.examples import instances


def point(rate: float, p99: float, **changes) -> Point:
    fields = {
        "connections": 64,
        "answered": 1000,
        "errors": {},
        "p50_ms": 1.0,
        "client_cpu": 0.1,
        "server_cpu_us": 100.0,
    }
    high = {"offered": rate, "per_second": rate, "p99_ms": p99, "p99_interval": (p99 * 0.9, p99 * 1.1)}
    return Point.model_validate(fields | high | changes)


def tried(*opened: Point, **settings):
    return core.build_trial(ServerSettings(**settings), [point(1, 1, offered=None)], opened, 50)


def test_of(*trials) -> LoadTest:
    best = core.best(trials)
    chosen = {"chosen": best and best.settings, "capacity": best.capacity if best else 0.0}
    about = {
        "model": "fraud",
        "version": 1,
        "sha256": "a" * 64,
        "limit_ms": 50,
        "cores": 2,
        "costs": [],
        "breakdown": [],
    }
    return LoadTest(trials=list(trials), utilization=0.7, requests_per_second=0.0, concurrency=1, **about, **chosen)


test_of.__test__ = False


def test_a_measurement_is_told_without_an_answer_too() -> None:
    silent = LoadSample(10.0, 1, errors={"503": 3}, seconds=1.0).point()
    assert (silent.answered, silent.failures, silent.p99_ms, silent.server_cpu_us) == (0, 3, None, None)


def test_a_measurement_is_told_in_milliseconds_and_shares_of_a_core() -> None:
    seconds = np.random.default_rng(0).permutation(np.arange(1, 1001)) / 1000
    sample = LoadSample(500.0, 8, list(seconds), {"503": 1}, 2.0, client_cpu=0.5, server_cpu=0.25)
    sample.fail("503")
    sample.fail("connection", 3)
    sample.fail("unanswered", 0)
    point = sample.point()
    assert point.errors == {"503": 2, "connection": 3}
    assert (point.offered, point.connections, point.answered, point.per_second) == (500, 8, 1000, 500)
    assert (point.p50_ms, point.p99_ms) == (500, 990)
    assert point.p99_interval == (984, 998)  # 990 and 1.96 standard deviations of a binomial count
    assert (point.client_cpu, point.server_cpu_us) == (0.25, 250)
    one = LoadSample(None, 1, [0.1], seconds=1.0, server_cpu=0.1).point()
    assert (one.offered, one.server_cpu_us, one.p99_interval) == (None, 100_000, (100, None))
    assert LoadSample(None, 1, [0.1], seconds=1.0).point().server_cpu_us is None
    assert LoadSample(None, 1, [], seconds=1.0, server_cpu=0.1).point().server_cpu_us is None


def test_capacity_is_the_highest_rate_below_which_no_measurement_breaks_the_limit() -> None:
    assert tried(point(300, 10), point(100, 10), point(200, 51)).capacity == 100
    assert tried(point(100, 10), point(200, 20, errors={"503": 1})).capacity == 100
    assert tried(point(100, 50)).capacity == 100
    assert tried(point(100, 51)).capacity == 0
    assert tried(point(100, 1, p99_ms=None)).capacity == 0


def test_other_settings_are_chosen_only_where_they_pay() -> None:
    usual, delayed = tried(point(100, 10)), tried(point(104, 10), delay_ms=1)
    assert core.best([usual, delayed]) == usual
    assert core.best([usual, tried(point(120, 10), delay_ms=1)]).settings.delay_ms == 1
    assert core.best([tried(point(100, 60)), tried(point(90, 60))]) is None


def test_settings_that_would_refuse_requests_are_measured_only() -> None:
    usual = tried(point(100, 10))
    assert core.best([usual, tried(point(300, 10), max_rows=1)]) == usual
    assert core.best([tried(point(300, 10), max_rows=1)]) is None


def test_a_machine_with_several_cores_has_workers_tried_and_the_local_endpoint_gets_one() -> None:
    usual = [ServerSettings(), ServerSettings(delay_ms=1), ServerSettings(max_rows=1)]
    assert core.sweep(1) == usual
    assert core.sweep(2) == [*usual, ServerSettings(workers=2)]
    assert ServerSettings(workers=4).flags[-2:] == ["--workers", "4"]
    usual, several = tried(point(100, 10)), tried(point(300, 10), workers=4)
    assert core.best([usual, several]) == several
    assert core.for_endpoint([usual, several]) == ServerSettings()
    assert core.for_endpoint([tried(point(100, 60)), several]) is None


@pytest.mark.parametrize(
    ("trials", "decision", "reason"),
    [
        ([tried(point(100, 10))], Decision.PASS, "at 100 requests a second the 99th percentile is 10 ms, within"),
        ([tried(point(100, 48))], Decision.UNDECIDED, "measure longer"),
        ([tried(point(100, 10, p99_interval=(9, None)))], Decision.UNDECIDED, "measure longer"),
        ([tried(point(100, 10, p99_interval=(9, 50)))], Decision.PASS, "within the limit of 50 ms"),
        ([tried(point(200, 90), point(100, 60))], Decision.FAIL, "50 ms without an error: at 100 requests a second"),
        ([tried(point(100, 60, p99_ms=None))], Decision.FAIL, "percentile is unknown, with 0 errors"),
        ([tried(point(100, 10, errors={"503": 7}))], Decision.FAIL, "with 7 errors"),
    ],
)
def test_the_verdict_is_about_the_interval_of_the_percentile(trials, decision, reason) -> None:
    verdict = core.verdict(test_of(*trials))
    assert verdict.decision is decision
    assert reason in verdict.reasons[0]
    assert verdict.subject == "a" * 64


def test_the_verdict_is_that_of_the_chosen_settings() -> None:
    verdict = core.verdict(test_of(tried(point(100, 20)), tried(point(300, 10), delay_ms=1)))
    assert verdict.gate == "loadtest"
    assert verdict.measures == [
        Measure(name="capacity", value=300),
        Measure(name="p99_ms", value=10, limit=50, interval=(9, 11), higher_is_better=False),
        Measure(name="errors", value=0, limit=0, higher_is_better=False),
    ]
    unsure = core.verdict(test_of(tried(point(100, 60, p99_interval=(50, None), errors={"503": 7}))))
    assert unsure.measures[1].interval is None
    assert (unsure.measures[0].value, unsure.measures[2].value) == (0, 7)


def test_the_open_loop_has_the_rates_asked_for_or_shares_of_what_was_answered() -> None:
    closed = [point(1, 1, per_second=100), point(1, 1, per_second=1000)]
    assert core.rates(Load.from_fields({"rates": [5]}, 50), closed) == [5]
    assert core.rates(Load.from_fields({}, 50), closed) == [500, 700, 850, 950]


def test_a_million_predictions_cost_their_cpu_time() -> None:
    cheap = Machine("cheap", "aws", "here", 2, {"on-demand": 0.36, "spot": None}, date="2026-01-02")
    dear, with_gpu = replace(cheap, name="dear", usd={"on-demand": 3.6}), replace(cheap, gpu="l4", gpus=1)
    (first, second) = core.costs(100.0, [dear, cheap, with_gpu])
    assert (first.machine, second.machine) == ("cheap on-demand", "dear on-demand")
    assert first.date == "2026-01-02"
    # 100 CPU seconds, at 0.18 USD a CPU hour that is busy 70 % of the time
    assert first.usd_per_million == pytest.approx(100 / 3600 * 0.18 / 0.7)


def test_what_follows_from_the_capacity_is_that_of_its_highest_measurement() -> None:
    machine = Machine("cheap", "aws", "here", 2, {"on-demand": 0.36})
    chosen = tried(point(100, 10), point(200, 10, server_cpu_us=5000.0, p50_ms=20.0), point(300, 60))
    figures = core.consequences(test_of(chosen), chosen, [machine])
    # 70 % of 200 requests a second; by Little's law 140 * 0.02 s are in flight
    assert figures == {"requests_per_second": 140, "concurrency": 3, "costs": core.costs(5000.0, [machine])}
    silent = tried(point(100, 10, server_cpu_us=None, p50_ms=None))
    figures = core.consequences(test_of(silent), silent, [machine])
    assert figures == {"requests_per_second": 70, "concurrency": 1, "costs": []}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"p99_ms": 0}, "load.p99_ms is 0: "),
        ({"connections": []}, "load.connections is []: "),
        ({"rate": 1}, "the fields are p99_ms, seconds, connections, rates"),
        ([], "load is []: "),
    ],
)
def test_a_wrong_load_is_told_what_is_allowed(fields, message) -> None:
    with pytest.raises(UserError) as error:
        Load.from_fields(fields, 50)
    assert message in str(error.value)


def test_the_limit_is_that_of_the_config_unless_another_one_is_given() -> None:
    assert Load.from_fields({}, 20).p99_ms == 20
    assert Load.from_fields({"p99_ms": 5}, 20).p99_ms == 5


@pytest.mark.parametrize(("numeric", "categorical"), [(["amount"], []), ([], ["channel"]), (["amount"], ["channel"])])
def test_requests_are_made_of_complete_rows_of_the_reference_sample(numeric, categorical) -> None:
    sample = pd.DataFrame({"amount": [1.5, np.nan, 2.5], "channel": ["shop", "web", "web"]}, index=[7, 7, 7])
    chosen = instances(
        Inputs(numeric=numeric, categorical={name: ["shop"] for name in categorical}), sample, core.REQUESTS
    )
    whole = [{"amount": 1.5, "channel": "shop"}, {"amount": 2.5, "channel": "web"}]
    assert chosen[0] == {name: whole[0][name] for name in [*numeric, *categorical]}
    assert chosen[-1] == {name: whole[1][name] for name in [*numeric, *categorical]}
    assert len(chosen) == (2 if numeric else 3)
    assert json.loads(json.dumps(chosen)) == chosen
    assert (
        len(instances(Inputs(numeric=["amount"], categorical={}), pd.concat([sample] * 50), core.REQUESTS))
        == core.REQUESTS
    )
    nullable = Inputs(numeric=["amount"], categorical={}, nullable=["amount"])
    assert instances(nullable, sample, core.REQUESTS) == [{"amount": 1.5}, {"amount": None}, {"amount": 2.5}]
    with pytest.raises(UserError, match="has no row without a missing value"):
        instances(Inputs(numeric=["amount"], categorical={}), sample.assign(amount=np.nan), 64)
