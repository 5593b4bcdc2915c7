"""`nightshift perf plan --serve`: the machines that serve a language model within an objective, and what they cost."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from nightshift.costs.prices import Machine, read_machines
from nightshift.runtime.errors import UserError, nearest
from nightshift_perf.contracts import RejectedReplica, ServingFleet, ServingPlan
from nightshift_perf.planning.serving import fleet
from nightshift_perf.planning.serving.batching import RequestLength
from nightshift_perf.planning.serving.deployment.engines import ENGINES
from nightshift_perf.planning.serving.deployment.files import name_deployment, write_deployment
from nightshift_perf.planning.serving.deployment.manifests import ServingDeployment
from nightshift_perf.planning.serving.fleet import Demand, FleetPlan, FleetSearch, Objective
from nightshift_perf.planning.serving.published import read_accuracy
from nightshift_perf.planning.serving.shapes import read_precision, read_shape
from pipelines.cli import options

if TYPE_CHECKING:
    from rich.table import Table


def add(command: argparse.ArgumentParser) -> None:
    """Add the flags of serving to the command."""
    command.add_argument("--serve", action="store_true", help="plan serving a language model instead of a training")
    command.add_argument("--prompt-tokens", type=int, default=1024, help="prompt tokens per request (default: 1024)")
    command.add_argument("--output-tokens", type=int, default=256, help="generated tokens per request (default: 256)")
    command.add_argument("--rate", type=float, default=1, help="requests per second to serve (default: 1)")
    command.add_argument(
        "--first-token-ms",
        type=float,
        default=500,
        help="limit of the time to the first token in ms, 99th percentile (default: 500)",
    )
    command.add_argument(
        "--token-ms", type=float, default=50, help="limit of the mean time per further token in ms (default: 50)"
    )
    command.add_argument(
        "--engine", choices=list(ENGINES), default="vllm", help="server whose deployment is written (default: vllm)"
    )


def run(args: argparse.Namespace) -> int:
    """Print the cheapest fleet of each machine and market, and the rejected replicas."""
    from rich.console import Console

    demand = _parse_demand(args)
    search = _search(demand, find_machines(args.gpu))
    described = describe(args.model, demand, search)
    files = _write(args, search) if args.write else []
    if args.json:
        return options.print_document(described)
    Console().print(_table(described))
    options.say(
        "error    in tokens/s at publishers left out of the fit: "
        f"{described.throughput_error_median:.0%} in the median, "
        f"{described.throughput_error_p90:.0%} at the 90th percentile"
    )
    for rejection in search.rejections:
        options.say(f"rejected {rejection}")
    if files:
        options.say(f"written  {', '.join(map(str, files))}")
    return 0


def _write(args: argparse.Namespace, search: FleetSearch) -> list[Path]:
    """Write the deployment of the cheapest fleet on demand: spot machines are taken away while they serve."""
    plan = next((plan for plan in search.plans if plan.market == "on-demand"), None)
    if plan is None:
        raise UserError("--write needs a fleet on demand, and no machine that serves this has such a price")
    deployment = ServingDeployment(name_deployment(args.model), plan, ENGINES[args.engine])
    return write_deployment(deployment, Path(args.write))


def find_machines(kind: str | None) -> list[Machine]:
    """Return the machines of the price list that have a GPU, or that kind of GPU.

    Raises:
        UserError: when none has it.
    """
    machines = [machine for machine in read_machines().values() if machine.gpus and kind in (None, machine.gpu)]
    if not machines:
        known = sorted({machine.gpu for machine in read_machines().values() if machine.gpu})
        raise UserError(
            f"--gpu is {kind!r}, and no machine of nightshift/costs/prices.yaml has it{nearest(kind or '', known)}; "
            f"choose one of {', '.join(known)}, or add a machine"
        )
    return machines


def _parse_demand(args: argparse.Namespace) -> Demand:
    if args.model == "custom":
        raise UserError("plan --serve needs --model: a preset such as llama3-70b, or a config.json")
    demand = Demand(
        model=read_shape(args.model),
        request=RequestLength(args.prompt_tokens, args.output_tokens),
        rate=args.rate,
        objective=Objective(args.first_token_ms / 1e3, args.token_ms / 1e3),
        precisions=_choose_precisions(args.model, args.precision),
        tensors=(args.tensor,) if args.tensor is not None else fleet.TENSOR,
    )
    fleet.check_demand(demand)
    return demand


def _choose_precisions(model: str, wanted: str | None) -> tuple[str, ...]:
    """Return the precisions to search: those of weights that are quantized already, or the one that is wanted."""
    quantized = read_precision(model)
    if quantized and wanted not in (None, quantized):
        raise UserError(
            f"--precision is {wanted}, and the weights of {model} are quantized to {quantized}; "
            "leave --precision out, or give the config.json of the model that was quantized"
        )
    precision = wanted or quantized
    return (precision,) if precision else fleet.SEARCHED


def _search(demand: Demand, machines: list[Machine]) -> FleetSearch:
    search = fleet.plan_fleets(demand, machines)
    if search.plans:
        return search
    reasons = "; ".join(str(rejection) for rejection in search.rejections) or "none has such a replica and a price"
    raise UserError(
        f"no machine serves this: {reasons}. Raise --first-token-ms or --token-ms, "
        "shorten --prompt-tokens, or name another --gpu"
    )


def describe(model: str, demand: Demand, search: FleetSearch) -> ServingPlan:
    """Return the results of the search as a document.

    Args:
        model: preset, or path of the config.json.
        demand: model, request lengths, rate and objective.
        search: fleets and rejections.
    """
    return ServingPlan(
        model=model,
        parameters=round(demand.model.parameters),
        prompt_tokens=demand.request.prompt,
        output_tokens=demand.request.output,
        requests_per_second=demand.rate,
        first_token_limit_seconds=demand.objective.first_token,
        token_limit_seconds=demand.objective.token,
        throughput_error_median=read_accuracy()["all"].median,
        throughput_error_p90=read_accuracy()["all"].tail,
        fleets=[_describe_fleet(plan) for plan in search.cheapest.values()],
        rejections=[
            RejectedReplica(
                gpu=rejection.replica.gpu.name,
                precision=rejection.replica.precision,
                tensor=rejection.replica.tensor,
                reason=rejection.reason,
            )
            for rejection in search.rejections
        ],
    )


def _describe_fleet(plan: FleetPlan) -> ServingFleet:
    replica, point = plan.replica, plan.point
    return ServingFleet(
        machine=plan.machine.name,
        market=plan.market,
        machines=plan.machines,
        gpu=replica.gpu.name,
        precision=replica.precision,
        tensor=replica.tensor,
        replicas=plan.replicas,
        concurrency=point.concurrency,
        weights_bytes=replica.weights,
        cache_tokens=replica.cache_tokens,
        idle_first_token_seconds=point.idle_first_token,
        first_token_seconds=point.first_token,
        first_token_p99_seconds=point.first_token_p99,
        token_seconds=point.token,
        tokens_per_second_per_gpu=plan.tokens_per_gpu,
        usd_per_hour=plan.usd_per_hour,
        usd_per_million_tokens=plan.usd_per_million,
        price_date=plan.machine.date,
        fitted=replica.is_fitted,
    )


def _table(plan: ServingPlan) -> "Table":
    from rich.table import Table

    request = f"{plan.requests_per_second:g} requests/s of {plan.prompt_tokens:,} + {plan.output_tokens:,} tokens"
    caption = "first token: 99th percentile; * no published servers of this architecture or precision were fitted"
    table = Table(title=f"{plan.model}, {request}", caption=caption)
    for column in ("machines", "replicas", "first token, ms", "token, ms", "USD/h", "USD/M tokens"):
        table.add_column(column, justify="left" if column in ("machines", "replicas") else "right")
    for offer in plan.fleets:
        table.add_row(*_cells(offer))
    return table


def _cells(offer: ServingFleet) -> tuple[str, ...]:
    mark = "" if offer.fitted else " *"
    return (
        f"{offer.machines} x {offer.machine} {offer.market}{mark}",
        f"{offer.replicas} of {offer.tensor} GPUs, {offer.precision}",
        f"{offer.first_token_p99_seconds * 1e3:,.0f}",
        f"{offer.token_seconds * 1e3:,.1f}",
        f"{offer.usd_per_hour:,.2f}",
        f"{offer.usd_per_million_tokens:,.2f}",
    )
