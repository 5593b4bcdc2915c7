"""The cheapest machines that serve requests within an objective, and why others do not."""

import bisect
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from nightshift.costs.prices import Machine
from nightshift.runtime.errors import UserError
from nightshift_perf.hardware import gpu
from nightshift_perf.planning.memory import GIB
from nightshift_perf.planning.models import Transformer
from nightshift_perf.planning.serving.batching import OperatingPoint, RequestLength, operate
from nightshift_perf.planning.serving.replica import PRECISIONS, ServingReplica

TENSOR = (1, 2, 4, 8)
SEARCHED = ("bf16", "fp8")  # precisions unless one is given
MAX_CONCURRENCY = 1024  # requests in flight that a replica is planned for at most, vLLM's default on large GPUs
NORMAL_P99 = 2.33  # standard deviations, the root of a Poisson mean, above which requests in flight rarely are


@dataclass(frozen=True)
class Objective:
    """What clients are promised, in seconds.

    Attributes:
        first_token: 99th percentile of the time to the first token.
        token: mean time per further token.
    """

    first_token: float
    token: float


@dataclass(frozen=True)
class Demand:
    """What is to be served.

    Attributes:
        model: its sizes.
        request: length of a request.
        rate: requests per second, arriving at random moments.
        objective: what clients are promised.
        precisions: of weights and cache, to search.
        tensors: numbers of GPUs per replica to search.
    """

    model: Transformer
    request: RequestLength
    rate: float
    objective: Objective
    precisions: tuple[str, ...] = SEARCHED
    tensors: tuple[int, ...] = TENSOR


@dataclass(frozen=True)
class Rejection:
    """A replica that does not meet the objective, and why."""

    replica: ServingReplica
    reason: str

    def __str__(self) -> str:
        """Return one line for people."""
        return f"{self.replica.tensor} x {self.replica.gpu.name}, {self.replica.precision}: {self.reason}"


@dataclass(frozen=True)
class FleetPlan:
    """Machines that serve a demand.

    Attributes:
        machine: their kind.
        market: `on-demand` or `spot`.
        usd_per_machine: US dollars per hour of one.
        replica: one copy of the model.
        point: how each replica is run.
        replicas: how many the rate takes.
        demand: what they serve.
    """

    machine: Machine
    market: str
    usd_per_machine: float
    replica: ServingReplica
    point: OperatingPoint
    replicas: int
    demand: Demand

    @property
    def machines(self) -> int:
        """How many are paid for; a replica stays on one machine."""
        return math.ceil(self.replicas / (self.machine.gpus // self.replica.tensor))

    @property
    def peak(self) -> int:
        """Requests in flight of a replica that are exceeded one time of 100."""
        mean = self.point.concurrency
        return math.ceil(mean + NORMAL_P99 * math.sqrt(mean))

    @property
    def usd_per_hour(self) -> float:
        """US dollars per hour of all machines."""
        return self.machines * self.usd_per_machine

    @property
    def usd_per_million(self) -> float:
        """US dollars per million output tokens at the demand's rate."""
        return self.usd_per_hour / (self.demand.rate * self.demand.request.output * 3600 / 1e6)

    @property
    def tokens_per_gpu(self) -> float:
        """Output tokens per second of a GPU at the operating point."""
        return self.point.rate * self.demand.request.output / self.replica.tensor


@dataclass(frozen=True)
class FleetSearch:
    """What was looked at.

    Attributes:
        plans: fleets that meet the objective, the cheapest first.
        rejections: replicas that do not.
    """

    plans: list[FleetPlan]
    rejections: list[Rejection]

    @cached_property
    def cheapest(self) -> dict[tuple[str, str], FleetPlan]:
        """The cheapest plan of each machine and market."""
        plans: dict[tuple[str, str], FleetPlan] = {}
        for plan in self.plans:
            plans.setdefault((plan.machine.name, plan.market), plan)
        return plans


def plan_fleets(demand: Demand, machines: Iterable[Machine]) -> FleetSearch:
    """Return every fleet of one kind of replica that serves a demand, and the replicas that cannot."""
    plans: list[FleetPlan] = []
    rejections: dict[tuple[str, str, int], Rejection] = {}  # one rejection a kind of replica, whatever its machine
    for machine in machines:
        for replica in list_replicas(demand, machine):
            point = find_point(replica, demand.request, demand.objective)
            if point:
                plans += _price(demand, machine, replica, point)
            else:
                kind = (replica.gpu.name, replica.precision, replica.tensor)
                rejections[kind] = Rejection(replica, explain_rejection(replica, demand))
    return FleetSearch(sorted(plans, key=lambda plan: plan.usd_per_hour), list(rejections.values()))


def list_replicas(demand: Demand, machine: Machine) -> Iterator[ServingReplica]:
    """Yield the replicas of a demand on a machine whose GPU computes in their precision and that has their GPUs."""
    model, kind = demand.model, gpu(machine.gpu)
    for precision, tensor in product(demand.precisions, demand.tensors):
        if (
            PRECISIONS[precision].products in kind.peaks
            and tensor <= machine.gpus
            and (model.groups or model.heads) % tensor == 0
        ):
            yield ServingReplica(model, kind, precision, tensor)


def find_point(replica: ServingReplica, request: RequestLength, objective: Objective) -> OperatingPoint | None:
    """Return the operating point with the most requests in flight within the objective; None if there is none."""
    # times grow with the requests in flight
    counts = range(1, min(MAX_CONCURRENCY, count_requests(replica, request)) + 1)
    met = bisect.bisect_left(counts, True, key=lambda count: not _meets(operate(replica, request, count), objective))
    return operate(replica, request, met) if met else None


def count_requests(replica: ServingReplica, request: RequestLength) -> int:
    """Return the mean number of requests in flight whose peaks, 99 times of 100, fit in the cache."""
    room = replica.cache_tokens // (request.prompt + request.output)
    return int((math.sqrt(room + (NORMAL_P99 / 2) ** 2) - NORMAL_P99 / 2) ** 2)


def check_demand(demand: Demand) -> None:
    """Refuse a demand that cannot be.

    Raises:
        UserError: naming the flag, its value and what is allowed.
    """
    values = {
        "--rate": demand.rate,
        "--prompt-tokens": demand.request.prompt,
        "--output-tokens": demand.request.output,
        "--first-token-ms": demand.objective.first_token,
        "--token-ms": demand.objective.token,
    }
    for flag, value in values.items():
        if not value > 0:
            raise UserError(f"{flag} is {value:g}; give a number above 0")
    for flag, chosen, known in (
        ("--precision", demand.precisions, tuple(PRECISIONS)),
        ("--tensor", demand.tensors, TENSOR),
    ):
        if not set(chosen) <= set(known):
            raise UserError(f"{flag} is {chosen[0]}; give one of {', '.join(map(str, known))}, or none to search all")


def explain_rejection(replica: ServingReplica, demand: Demand) -> str:
    """Return why a replica does not meet an objective, with the figure and its limit."""
    if count_requests(replica, demand.request) < 1:
        need, has = replica.weights / GIB, replica.gpu.memory / GIB
        return f"weights of {need:.1f} GiB leave no room for a request's cache in {has:.1f} GiB per GPU"
    lone, limits = operate(replica, demand.request, 1), demand.objective
    if lone.first_token_p99 > limits.first_token:
        figure = f"the first token takes {lone.first_token_p99 * 1e3:,.0f} ms (99 %)"
        return f"{figure} with one request in flight, above {limits.first_token * 1e3:,.0f}"
    figure = f"a token takes {lone.token * 1e3:,.1f} ms"
    return f"{figure} with one request in flight, above {limits.token * 1e3:,.1f}"


def _price(demand: Demand, machine: Machine, replica: ServingReplica, point: OperatingPoint) -> Iterator[FleetPlan]:
    count = math.ceil(demand.rate / point.rate)
    for market, usd in machine.usd.items():
        if usd is not None:
            yield FleetPlan(machine, market, usd, replica, point, count, demand)


def _meets(point: OperatingPoint, objective: Objective) -> bool:
    return point.first_token_p99 <= objective.first_token and point.token <= objective.token
