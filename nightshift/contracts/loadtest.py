"""`loadtest.json`: what a server of the champion withstands on one machine, and what follows from that."""

from typing import Annotated

import annotated_types
from pydantic import Field

from nightshift.contracts.artifact import Artifact, Part

FILE = "loadtest.json"
UTILIZATION = 0.7  # share of its capacity at which a replica gets help


class ServerSettings(Artifact):
    """How the server is started: the flags of `nightshift.serving` that change what it withstands."""

    max_rows: Annotated[int, annotated_types.Ge(1)] = Field(1024, description="rows of one call of the model")
    delay_ms: Annotated[float, annotated_types.Ge(0)] = Field(0, description="how long a call waits for more rows")
    workers: Annotated[int, annotated_types.Ge(1)] = Field(1, description="processes that answer")

    @property
    def flags(self) -> list[str]:
        """The server's flags."""
        values = {"max-rows": str(self.max_rows), "delay-ms": f"{self.delay_ms:g}", "workers": str(self.workers)}
        return [word for name, value in values.items() for word in (f"--{name}", value)]

    def __str__(self) -> str:
        text = f"up to {self.max_rows:,} rows, {self.delay_ms:g} ms delay"
        return text if self.workers == 1 else f"{text}, {self.workers} workers"


class Point(Part):
    """One measurement: what the client sent and what came back."""

    offered: float | None = Field(description="requests a second that were due; null: as many as are answered")
    connections: int = Field(description="of the client")
    answered: int = Field(description="requests that were answered with 200")
    errors: dict[str, int] = Field(description="the others by status, `connection` or `unanswered`")
    per_second: float = Field(description="answered requests a second")
    p50_ms: float | None = Field(description="median latency since a request was due; null without an answer")
    p99_ms: float | None = Field(description="its 99th percentile")
    p99_interval: tuple[float, float | None] | None = Field(
        description="95 % interval of the 99th percentile; high is null where there are too few answers"
    )
    client_cpu: float = Field(description="share of a core that the client took")
    server_cpu_us: float | None = Field(description="CPU time of the server a request; null where nobody says")

    @property
    def failures(self) -> int:
        """Requests without a right answer."""
        return sum(self.errors.values())


class LoadTrial(Part):
    """One way to start the server, under load."""

    settings: ServerSettings
    closed: list[Point] = Field(description="each connection asks again as soon as it is answered")
    open: list[Point] = Field(description="requests are due at random times, whether others are answered or not")
    capacity: float = Field(description="highest rate up to which every one keeps the limit, requests a second; or 0")


class LatencyShare(Part):
    """A part of the latency of one request."""

    name: str = Field(
        description="`parse` and `features`, or `decode` of an item; `queue`, `compute`, `serialize`, `HTTP and kernel`"
    )
    microseconds: float


class PredictionCost(Part):
    """What a million predictions cost on a machine, by the CPU time that they took here."""

    machine: str = Field(description="as its cloud calls it")
    usd_per_hour: float
    vcpus: int
    date: str = Field(description="day of the price")
    source: str = Field(description="page that names the price")
    usd_per_million: float = Field(description="with the CPUs as busy as `utilization` says")


class LoadTest(Artifact):
    """What a server of the champion withstands on one machine, and what follows from that."""

    model: str = Field(description="name of the registered model")
    version: int
    sha256: str = Field(description="its identity")
    limit_ms: float = Field(description="limit of the 99th percentile of latency")
    cores: int = Field(description="of this machine; the client shares them")
    trials: list[LoadTrial]
    chosen: ServerSettings | None = Field(description="those with the most capacity; null where none keeps the limit")
    capacity: float = Field(description="of one replica with these, requests a second")
    utilization: float = Field(description="share of the capacity at which a replica is added")
    requests_per_second: float = Field(description="of one replica at this share: what an autoscaler aims at")
    concurrency: int = Field(description="requests in flight at one replica then")
    breakdown: list[LatencyShare] = Field(
        description="of one request, while nothing else is asked, in the order of time"
    )
    costs: list[PredictionCost]
