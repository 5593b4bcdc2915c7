"""Schedule of the requests, statistics of their latencies, and the choice of the best settings."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from math import ceil
from typing import Annotated, Any, Self

import annotated_types
import numpy as np
from pydantic import Field, ValidationError

from nightshift.config.section import ConfigSection
from nightshift.contracts.loadtest import UTILIZATION, LoadTest, LoadTrial, Point, PredictionCost, ServerSettings
from nightshift.contracts.verdict import Decision, Measure, Verdict
from nightshift.costs.prices import Machine
from nightshift.runtime.errors import UserError
from nightshift.stats import latency

Positive = Annotated[float, annotated_types.Interval(gt=0, le=1e9)]
Count = Annotated[int, annotated_types.Interval(ge=1, le=65_536)]

SHARES = (0.5, 0.7, 0.85, 0.95)  # shares of the closed loop's throughput at which the open loop is measured
WORTHWHILE_GAIN = 1.05  # ratio to the capacity of simpler settings from which on others are worth it
QUANTILE = 0.99
REQUESTS = 64  # different requests that are sent in turn


class Load(ConfigSection):
    """Load on the server, and the limit of its latency."""

    p99_ms: Positive = Field(description="limit of the 99th percentile of latency")
    seconds: Annotated[float, annotated_types.Interval(gt=0, le=3600)] = Field(
        2, description="duration of each measurement"
    )
    connections: list[Count] = Field(
        [1, 8, 32], min_length=1, description="connections of the closed loop, one measurement each"
    )
    rates: list[Positive] = Field(
        [], description="requests per second of the open loop; []: shares of the closed loop's throughput"
    )

    @classmethod
    def from_fields(cls, values: object, limit_ms: float) -> Self:
        """Check the fields of `--load`.

        Args:
            values: fields and values.
            limit_ms: `p99_ms` where the fields have none.

        Raises:
            UserError: for the first field that is wrong.
        """
        try:
            return cls.parse_value({"p99_ms": limit_ms} | values if isinstance(values, dict) else values)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            name = ".".join(["load", *map(str, first["loc"])])
            fields = ", ".join(cls.model_fields)
            raise UserError(f"{name} is {first['input']!r}: {first['msg']}; the fields are {fields}") from None


@dataclass
class LoadSample:
    """Latencies and errors of one measurement.

    Attributes:
        offered: requests a second that were due, None in a closed loop.
        connections: connections of the client.
        latencies: latencies of the responses, in seconds since each request was due.
        errors: responses other than 200, by status, `connection` or `unanswered`.
        seconds: time from the first request to the last response.
        client_cpu: CPU seconds of the client.
        server_cpu: CPU seconds of the server, None where it is unknown.
    """

    offered: float | None
    connections: int
    latencies: list[float] = field(default_factory=list)
    errors: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    client_cpu: float = 0.0
    server_cpu: float | None = None

    def fail(self, why: str, times: int = 1) -> None:
        """Count requests that were not answered."""
        if times:
            self.errors[why] = self.errors.get(why, 0) + times

    def point(self) -> Point:
        """Return the measurement's figures."""
        sorted_ms, count = np.sort(np.array(self.latencies)) * 1000, len(self.latencies)
        spent = self.server_cpu is not None and count > 0
        return Point(
            offered=self.offered,
            connections=self.connections,
            answered=count,
            errors=self.errors,
            per_second=count / self.seconds,
            p50_ms=latency.quantile(sorted_ms, 0.5),
            p99_ms=latency.quantile(sorted_ms, QUANTILE),
            p99_interval=latency.interval(sorted_ms, QUANTILE),
            client_cpu=self.client_cpu / self.seconds,
            server_cpu_us=(self.server_cpu or 0) / count * 1e6 if spent else None,
        )


def sweep(cores: int) -> list[ServerSettings]:
    """Return the settings to try on a machine, the usual ones first."""
    several = [ServerSettings(workers=cores)] if cores > 1 else []
    return [ServerSettings(), ServerSettings(delay_ms=1), ServerSettings(max_rows=1), *several]


def keeps(point: Point, limit_ms: float) -> bool:
    """Return whether a measurement has no error and lies within the limit, which a growing queue soon leaves."""
    return not point.failures and point.p99_ms is not None and point.p99_ms <= limit_ms


def highest(opened: Sequence[Point], limit_ms: float) -> Point | None:
    """Return the measurement with the highest rate up to which all of them keep the limit, None without one."""
    ascending = sorted(opened, key=lambda point: point.offered or 0)
    kept = list(takewhile(lambda point: keeps(point, limit_ms), ascending))
    return kept[-1] if kept else None


def build_trial(
    settings: ServerSettings, closed: Sequence[Point], opened: Sequence[Point], limit_ms: float
) -> LoadTrial:
    """Return a trial with its capacity."""
    best = highest(opened, limit_ms)
    capacity = best.offered or 0.0 if best else 0.0
    return LoadTrial(settings=settings, closed=list(closed), open=list(opened), capacity=capacity)


def rates(load: Load, closed: Sequence[Point]) -> list[float]:
    """Return the rates of the open loop: the configured ones, or shares of the closed loop's highest throughput."""
    most = max(point.per_second for point in closed)
    return load.rates or [share * most for share in SHARES if most]


def best(trials: Sequence[LoadTrial]) -> LoadTrial | None:
    """Return the first trial that has nearly the highest capacity, None when none keeps the limit.

    Settings with fewer rows a call than usual are measured only: they would refuse larger requests, too.
    """
    fit = [trial for trial in trials if trial.settings.max_rows >= ServerSettings().max_rows]
    most = max((trial.capacity for trial in fit), default=0.0)
    return next((trial for trial in fit if most and trial.capacity * WORTHWHILE_GAIN >= most), None)


def for_endpoint(trials: Sequence[LoadTrial]) -> ServerSettings | None:
    """Return the best settings with one worker, which is what an online state in files can have; None without any."""
    fastest = best([trial for trial in trials if trial.settings.workers == 1])
    return fastest.settings if fastest else None


def verdict(loadtest: LoadTest) -> Verdict:
    """Judge the chosen settings, or else the lightest load of the first ones, by the interval of the percentile."""
    chosen = next((trial for trial in loadtest.trials if trial.settings == loadtest.chosen), loadtest.trials[0])
    kept = highest(chosen.open, loadtest.limit_ms)
    point = kept or min(chosen.open, key=lambda point: point.offered or 0)
    low, high = point.p99_interval or (None, None)
    measures = [
        Measure(name="capacity", value=loadtest.capacity),
        Measure(
            name="p99_ms",
            value=point.p99_ms,
            limit=loadtest.limit_ms,
            interval=None if low is None or high is None else (low, high),
            higher_is_better=False,
        ),
        Measure(name="errors", value=point.failures, limit=0, higher_is_better=False),
    ]
    decision = _decision(kept is not None, high, loadtest.limit_ms)
    return Verdict(
        gate="loadtest",
        decision=decision,
        reasons=[_reason(decision, point, loadtest)],
        measures=measures,
        subject=loadtest.sha256,
    )


def _decision(is_kept: bool, high: float | None, limit_ms: float) -> Decision:
    if not is_kept:
        return Decision.FAIL
    return Decision.PASS if high is not None and high <= limit_ms else Decision.UNDECIDED


def _reason(decision: Decision, point: Point, loadtest: LoadTest) -> str:
    limit, p99 = f"{loadtest.limit_ms:g} ms", "unknown" if point.p99_ms is None else f"{point.p99_ms:.2g} ms"
    at = f"at {point.offered or 0:,.0f} requests a second the 99th percentile is {p99}"
    if decision is Decision.PASS:
        return f"With {loadtest.chosen}, {at}, within the limit of {limit}."
    if decision is Decision.UNDECIDED:
        return (
            f"With {loadtest.chosen}, {at}, but its interval passes the limit of {limit}; measure longer (--seconds)."
        )
    return f"No settings keep the limit of {limit} without an error: {at}, with {point.failures:,} errors."


def costs(cpu_us: float, machines: Iterable[Machine]) -> list[PredictionCost]:
    """Return what a million predictions cost on each machine without a GPU that has a price, cheapest first.

    Args:
        cpu_us: CPU time of the server a prediction, in microseconds, taken to be the same there.
        machines: that may serve.
    """
    hours = cpu_us / 3600 / UTILIZATION  # hours of one CPU for a million requests
    prices = [
        PredictionCost(
            machine=name,
            usd_per_hour=usd,
            vcpus=machine.vcpus,
            date=machine.date,
            source=machine.source,
            usd_per_million=hours * usd / machine.vcpus,
        )
        for machine in machines
        if not machine.gpus
        for name, usd in machine.markets
        if usd is not None
    ]
    return sorted(prices, key=lambda cost: cost.usd_per_million)


def consequences(loadtest: LoadTest, chosen: LoadTrial, machines: Iterable[Machine]) -> dict[str, Any]:
    """Return what follows from the chosen settings' capacity: `requests_per_second`, `concurrency`, and `costs`."""
    point = highest(chosen.open, loadtest.limit_ms)
    assert point, "settings are chosen for the capacity that they have"
    rate = chosen.capacity * loadtest.utilization
    in_flight = rate * (point.p50_ms or 0.0) / 1000  # Little's law
    return {
        "requests_per_second": rate,
        "concurrency": max(1, ceil(in_flight)),
        "costs": costs(point.server_cpu_us, machines) if point.server_cpu_us else [],
    }
