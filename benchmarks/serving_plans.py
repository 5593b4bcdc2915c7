"""The planner for serving against AIConfigurator: errors of times and rates, and the cost of choosing by it.

    python -m venv runs/aiconfigurator
    runs/aiconfigurator/bin/pip install aiconfigurator==0.12.0 aiconfigurator-core==0.12.0
    python -m benchmarks.serving_plans runs/aiconfigurator/bin/python   # RECORD=1 replaces the tests' points too
    python -m benchmarks.serving_plans --fit        # prints efficiency.yaml anew
    python -m benchmarks.serving_plans --left-out   # prints accuracy.yaml anew: fits without one publisher each

The constants of `planning/serving/efficiency.yaml` in packages/perf are fitted to every second point of `REQUESTS`, and
to the servers of `published.csv` beside it; the other points judge them. Agreement on the time to a first token says
less than the rest: the form of the wait for other prompts, and the time that the engine adds per layer, are
AIConfigurator's own.
"""

import argparse
import csv
import math
import os
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, product
from pathlib import Path
from statistics import mean, median, quantiles

import numpy as np
import yaml
from rich.console import Console

from benchmarks.figures import RECORD, Row, publish
from nightshift.costs.prices import read_machines
from nightshift_perf.hardware import gpu
from nightshift_perf.planning.serving.batching import OperatingPoint, RequestLength, operate
from nightshift_perf.planning.serving.efficiency import ServingEfficiency
from nightshift_perf.planning.serving.fleet import Objective
from nightshift_perf.planning.serving.published import PublishedThroughput, read_points
from nightshift_perf.planning.serving.replica import ServingReplica
from nightshift_perf.planning.serving.shapes import read_shape

ERRORS = "AIConfigurator 0.12.0: vLLM, Llama 3.1 8B and 70B, 1 to 8 A100, H100, H200 or B200, five lengths of requests."
ORACLE = Path(__file__).with_name("aiconfigurator_points.py")
POINTS = Path(__file__).parents[1] / "tests" / "benchmarks" / "aiconfigurator.csv"
# length of a request -> requests in flight of the points that are fitted and judged
REQUESTS = {
    RequestLength(1024, 256): 64,
    RequestLength(4096, 256): 16,
    RequestLength(512, 1024): 128,
    RequestLength(256, 64): 32,
    RequestLength(2048, 512): 8,
}
# AIConfigurator gives no percentiles: here the limit of the first token is one of its mean
OBJECTIVES = (Objective(0.3, 0.03), Objective(0.5, 0.05), Objective(1, 0.03), Objective(2, 0.1))
# the fit starts from these, and is held near them: times alone do not tell a slow link from a slow memory
GUESSES = ServingEfficiency(
    products={"bf16": 0.8, "fp8": 0.6},
    attention=0.55,
    traffic=0.8,
    links=0.65,
    kernel=4e-6,
    decode=15e-6,
    collective=6e-6,
    prompt=30e-6,
    quantization=7,
    dispatch=0.8e-3,
    queue=8,
)
SHARED = ("prompt", "quantization", "dispatch", "queue")
OWN = ("attention", "traffic", "links", "kernel", "decode", "collective")  # an architecture has its own
SHARES = ("attention", "traffic", "links")
HIGHEST = 0.9  # of a data sheet's figure that a share is fitted to
ARCHITECTURES = {"ampere": ("bf16",), "hopper": ("bf16", "fp8"), "blackwell": ("bf16", "fp8")}
LOOSENESS = 0.12  # standard deviation of the logarithms around the guesses, beside one of 0.1 of the points


@dataclass(frozen=True)
class FittedReplica(ServingReplica):
    """A replica with efficiencies that a fit tries."""

    fitted: ServingEfficiency

    @property
    def efficiency(self) -> ServingEfficiency:
        """What is fitted."""
        return self.fitted

    @classmethod
    def copy_from(cls, replica: ServingReplica, rows: Mapping[str, ServingEfficiency]) -> "FittedReplica":
        """Return a replica with other efficiencies, by architecture."""
        row = rows[replica.gpu.architecture]
        return cls(replica.model, replica.gpu, replica.precision, replica.tensor, row)


@dataclass(frozen=True)
class OraclePoint:
    """A replica under a request, as AIConfigurator predicts it.

    Attributes:
        replica: model, GPU, precision and GPUs.
        request: length of a request.
        concurrency: requests in flight.
        first_token: mean seconds to the first token.
        token: mean seconds per further token.
        tokens_per_gpu: output tokens per second of a GPU.
    """

    replica: ServingReplica
    request: RequestLength
    concurrency: int
    first_token: float
    token: float
    tokens_per_gpu: float

    @cached_property
    def planned(self) -> OperatingPoint:
        """The planner's figures."""
        return operate(self.replica, self.request, self.concurrency)

    @property
    def planned_tokens_per_gpu(self) -> float:
        """The planner's output tokens per second of a GPU."""
        return self.planned.rate * self.request.output / self.replica.tensor

    @property
    def fits(self) -> bool:
        """Whether the planner has room for its cache."""
        return self.concurrency * (self.request.prompt + self.request.output) <= self.replica.cache_tokens

    def with_efficiencies(self, rows: Mapping[str, ServingEfficiency]) -> "OraclePoint":
        """Return the point with other efficiencies, by architecture."""
        return replace(self, replica=FittedReplica.copy_from(self.replica, rows))


# what a fit does without, to see whether its constants hold there
LEFT_OUT: dict[str, Callable[[OraclePoint], bool]] = {
    "70B": lambda point: point.replica.model.layers == 80,
    "H200": lambda point: point.replica.gpu.name == "h200-141gb",
    "prompts of 4,096 tokens": lambda point: point.request.prompt == 4096,
}
# what is compared -> the planner's relative error
QUANTITIES: dict[str, Callable[[OraclePoint], float]] = {
    "time to the first token": lambda point: point.planned.first_token / point.first_token - 1,
    "time per further token": lambda point: point.planned.token / point.token - 1,
    "tokens/s per GPU": lambda point: point.planned_tokens_per_gpu / point.tokens_per_gpu - 1,
}


def main() -> None:
    """Print errors and regret and publish them, or print the constants of a fit."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.serving_plans")
    parser.add_argument("oracle", nargs="?", help="Python of AIConfigurator's environment")
    parser.add_argument("--fit", action="store_true", help="print the constants that fit best, and exit")
    parser.add_argument("--left-out", action="store_true", help="print errors at publishers left out, and exit")
    args = parser.parse_args()
    if args.fit or args.left_out:
        points, published = read_table(POINTS.read_text().splitlines()), read_points()
        table = leave_out(points, published) if args.left_out else describe(fit(points[::2], published))
        return Console().print(yaml.safe_dump(table, sort_keys=False))
    if not args.oracle:
        parser.error("name the Python of AIConfigurator's environment, or --fit or --left-out")
    lines = _ask(args.oracle)
    points = read_table(lines)
    publish("serving-plans", list(compare(points)), ERRORS)
    choices = {"precision, GPUs per replica": None, "and the GPU, on demand": "on-demand", "and the GPU, spot": "spot"}
    publish(
        "serving-regret", [summarize(name, list(compute_regrets(points, market))) for name, market in choices.items()]
    )
    publish("serving-generalized", list(generalize(select_points(points))), "Errors: median, 90th percentile.")
    if os.environ.get(RECORD):
        POINTS.write_text("".join(f"{line}\n" for line in _keep(lines)))
    return None


def read_table(lines: Iterable[str]) -> list[OraclePoint]:
    """Return the points of a table as the oracle's script writes it."""
    return [_parse(row) for row in csv.DictReader(lines)]


def select_points(points: Iterable[OraclePoint]) -> list[OraclePoint]:
    """Return the points of `REQUESTS`: every second one is fitted, from the first on."""
    return [point for point in points if point.concurrency == REQUESTS[point.request]]


def spread(errors: Iterable[float]) -> tuple[float, float]:
    """Return the median and the 90th percentile of absolute errors."""
    absolute = [abs(error) for error in errors]
    return median(absolute), quantiles(absolute, n=10)[-1]


def compare(points: Sequence[OraclePoint]) -> Iterator[Row]:
    """Yield rows of the planner's errors: the median and the 90th percentile, by what the points were used for."""
    judged = select_points(points)
    others = [point for point in points if point.concurrency != REQUESTS[point.request]]
    roles = {"fitted": judged[::2], "held out": judged[1::2], "held out, other requests in flight": others}
    for (quantity, error), (role, chosen) in product(QUANTITIES.items(), roles.items()):
        middle, tail = spread(map(error, chosen))
        yield {
            "compared": quantity,
            "points": role,
            "number": len(chosen),
            "median error, %": 100 * middle,
            "90th percentile, %": 100 * tail,
        }


def compute_regrets(points: Iterable[OraclePoint], market: str | None = None) -> Iterator[float]:
    """Yield what choices by the planner cost too much per token, relative to the best, for each objective.

    The choice is run at the concurrency that is best for it by the oracle, as an operator would tune it.

    Args:
        points: candidates.
        market: whose prices decide between GPUs; None if the GPU is given.
    """

    def kind(point: OraclePoint) -> tuple[object, ...]:
        gpu = () if market else (point.replica.gpu.name,)
        return point.replica.model.layers, point.request.prompt, point.request.output, *gpu

    for _, group in groupby(sorted(points, key=kind), kind):
        candidates = list(group)
        for objective in OBJECTIVES:
            yield from _regret(candidates, objective, market)


def summarize(choice: str, costs: Sequence[float]) -> Row:
    """Return the row of the regrets of a choice."""
    return {
        "chosen": choice,
        "choices": len(costs),
        "median, %": 100 * median(costs),
        "mean, %": 100 * mean(costs),
        "90th percentile, %": 100 * quantiles(costs, n=10)[-1],
        "largest, %": 100 * max(costs),
    }


def generalize(points: Iterable[OraclePoint]) -> Iterator[Row]:
    """Yield rows of errors at points of a kind that the constants were not fitted to, unlike those of the table."""
    for name, is_left_out in LEFT_OUT.items():
        rows = fit([point for point in points if not is_left_out(point)], ())
        trials = [point.with_efficiencies(rows) for point in points if is_left_out(point)]
        spreads = {quantity: spread(map(error, trials)) for quantity, error in QUANTITIES.items()}
        yield {"left out of the fit": name, "points": len(trials)} | {
            f"{quantity}, %": f"{100 * middle:.1f}, {100 * tail:.1f}" for quantity, (middle, tail) in spreads.items()
        }


def leave_out(
    points: Sequence[OraclePoint], published: Sequence[PublishedThroughput]
) -> dict[str, dict[str, float | int]]:
    """Return errors in tokens/s per GPU at each publisher's points by fits without them, as in `accuracy.yaml`."""
    throughput = QUANTITIES["tokens/s per GPU"]
    rows = fit([], published)
    errors = {"AIConfigurator": [throughput(point.with_efficiencies(rows)) for point in points]}
    for publisher in dict.fromkeys(point.publisher for point in published):
        rows = fit(points[::2], [point for point in published if point.publisher != publisher])
        judged = [point for point in published if point.publisher == publisher]
        errors[publisher] = [with_efficiencies(point, rows).error for point in judged]
    errors = {"all": [error for one in errors.values() for error in one]} | errors
    return {name: _summarize_errors(relative) for name, relative in errors.items()}


def with_efficiencies(point: PublishedThroughput, rows: Mapping[str, ServingEfficiency]) -> PublishedThroughput:
    """Return a published point with other efficiencies, by architecture."""
    return replace(point, replica=FittedReplica.copy_from(point.replica, rows))


def fit(points: Sequence[OraclePoint], published: Sequence[PublishedThroughput]) -> dict[str, ServingEfficiency]:
    """Return the efficiencies that meet the points best, by least squares of log errors."""
    from scipy.optimize import least_squares

    def residuals(logs: np.ndarray) -> np.ndarray:
        rows = unpack_factors(np.exp(logs))
        trials = [point.with_efficiencies(rows) for point in points]
        misses = [error(trial) for trial in trials for error in QUANTITIES.values()]
        misses += [with_efficiencies(point, rows).error for point in published]
        return np.array([*(math.log1p(miss) / 0.1 for miss in misses), *logs / LOOSENESS])

    highest = np.log([*_list_bounds()])
    return unpack_factors(
        np.exp(
            least_squares(residuals, np.zeros_like(highest), bounds=(-np.inf, highest), loss="soft_l1", max_nfev=20).x
        )
    )


def _list_bounds() -> Iterator[float]:
    """Yield the highest factor of each guess, as `unpack_factors` reads them: no share exceeds its data sheet's."""
    yield from [math.inf] * len(SHARED)
    for precisions in ARCHITECTURES.values():
        yield from (HIGHEST / GUESSES.products[precision] for precision in precisions)
        yield from (HIGHEST / getattr(GUESSES, name) if name in SHARES else math.inf for name in OWN)


def _summarize_errors(relative: Sequence[float]) -> dict[str, float | int]:
    middle, tail = spread(relative)
    return {"points": len(relative), "median": round(float(middle), 3), "tail": round(float(tail), 3)}


def describe(rows: Mapping[str, ServingEfficiency]) -> dict[str, float | dict]:
    """Return the efficiencies as `efficiency.yaml` has them."""
    shared = {name: _round(getattr(rows["hopper"], name)) for name in SHARED}
    return shared | {"architectures": {name: _describe(row) for name, row in rows.items()}}


def unpack_factors(factors: Iterable[float]) -> dict[str, ServingEfficiency]:
    """Return the guesses times as many factors, by architecture."""
    factor = iter(factors)
    shared = {name: getattr(GUESSES, name) * next(factor) for name in SHARED}
    rows = {}
    for architecture, precisions in ARCHITECTURES.items():
        products = {precision: GUESSES.products[precision] * next(factor) for precision in precisions}
        own = {name: getattr(GUESSES, name) * next(factor) for name in OWN}
        rows[architecture] = ServingEfficiency(products=products, **own, **shared)
    return rows


def _describe(row: ServingEfficiency) -> dict[str, float | dict]:
    products = {precision: _round(share) for precision, share in row.products.items()}
    return {"products": products} | {name: _round(getattr(row, name)) for name in OWN}


def _round(value: float) -> float:
    return float(f"{value:.2g}")


def _ask(python: str) -> list[str]:
    """Return the lines of the oracle's table; it may not look for models on the network."""
    environment = os.environ | {"HF_HUB_OFFLINE": "1"}
    environment.pop("PYTHONPATH", None)
    return subprocess.run(
        [python, str(ORACLE)], env=environment, check=True, capture_output=True, text=True
    ).stdout.splitlines()


def _keep(lines: list[str]) -> Iterator[str]:
    """Yield the header and the lines of the points that are judged."""
    yield lines[0]
    for line, point in zip(lines[1:], read_table(lines), strict=True):
        if point in select_points([point]):
            yield line


def _parse(row: dict[str, str]) -> OraclePoint:
    replica = ServingReplica(read_shape(row["model"]), gpu(row["gpu"]), row["precision"], int(row["tensor"]))
    return OraclePoint(
        replica=replica,
        request=RequestLength(int(row["prompt"]), int(row["output"])),
        concurrency=int(row["concurrency"]),
        first_token=float(row["first_token"]),
        token=float(row["token"]),
        tokens_per_gpu=float(row["tokens_per_gpu"]),
    )


def _regret(candidates: Sequence[OraclePoint], objective: Objective, market: str | None) -> Iterator[float]:
    """Yield how much dearer the planner's choice is, if both find one."""
    possible = [point for point in candidates if _meets(point, objective)]
    planned = [point for point in candidates if point.fits and _meets(point.planned, objective)]
    if not possible or not planned:
        return
    chosen = min(planned, key=lambda point: _price(point, market) / point.planned_tokens_per_gpu).replica
    costs = [_price(point, market) / point.tokens_per_gpu for point in possible]
    tuned = [cost for cost, point in zip(costs, possible, strict=True) if point.replica == chosen]
    yield min(tuned) / min(costs) - 1 if tuned else math.inf


def _price(point: OraclePoint, market: str | None) -> float:
    """Return the US dollars per hour of the point's GPU; 1 where the GPU is given."""
    if market is None:
        return 1.0
    machine = next(machine for machine in read_machines().values() if machine.gpu == point.replica.gpu.name)
    return machine.usd[market] / machine.gpus


def _meets(times: OraclePoint | OperatingPoint, objective: Objective) -> bool:
    return times.first_token <= objective.first_token and times.token <= objective.token


if __name__ == "__main__":
    main()
