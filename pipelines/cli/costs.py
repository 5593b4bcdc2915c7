"""The command about money: what runs have cost, and what a training would on machines that may be taken away."""

import argparse
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from nightshift.contracts.listings import CostEstimate, CostOffer, RunCost
from nightshift.costs.prices import read_machines
from nightshift.costs.spending import HOUR
from nightshift.costs.spot import Interruptions
from nightshift.runtime.errors import UserError
from pipelines.cli import options
from pipelines.workspace import Workspace

if TYPE_CHECKING:
    from rich.table import Table

UNPRICED = "no price: name the machine in the config's costs.machine, and its dollars an hour in costs.prices"


def add(commands: options.Commands) -> None:
    """Add the command."""
    command = options.add_command(commands, "costs", costs.__doc__)
    command.add_argument("run", nargs="?", help="id of a run, to show the cost of each step (default: all runs)")
    options.add_workspace(command)
    command.add_argument("--samples", type=float, help="samples to train on, to estimate the cost on each machine")
    command.add_argument(
        "--measured",
        action="append",
        default=[],
        metavar="GPU=RATE",
        help="measured throughput of one GPU in samples/s, such as h100-80gb=1200; repeatable",
    )
    command.add_argument(
        "--interrupted-hours", type=float, default=5, help="mean hours until a spot machine is lost (default: 5)"
    )
    command.add_argument(
        "--checkpoint-seconds", type=float, default=30, help="seconds to save a checkpoint (default: 30)"
    )
    command.add_argument(
        "--restart-seconds", type=float, default=300, help="seconds to resume on another machine (default: 300)"
    )
    options.add_json(command, "run_costs", "cost_estimate")
    command.set_defaults(command=costs)


def costs(args: argparse.Namespace) -> int:
    """Show the costs of runs by step, run, model version and use case, or estimate those of a training."""
    if args.samples or args.measured:
        if not args.samples or not args.measured:
            raise UserError("an expected cost takes both --samples and --measured GPU=RATE, e.g. --measured l4=5200")
        estimate = estimate_costs(args.samples, dict(map(_parse_rate, args.measured)), _interruptions(args))
        return options.print_document(estimate) if args.json else options.print_table(_offers(estimate))
    spent = Workspace(options.state(args)).read_costs(args.run)
    if args.json:
        return options.print_document(spent)
    return options.print_table(_steps(spent.runs[0]) if args.run else _runs(spent.runs))


def estimate_costs(samples: float, rates: dict[str, float], interruptions: Interruptions) -> CostEstimate:
    """Return the expected costs of a training on each machine whose GPU has been measured.

    Args:
        samples: to train on.
        rates: GPU model -> samples/s of one.
        interruptions: how often a spot machine is lost, and what that costs.
    """
    offers = sorted(_price_offers(samples, rates, interruptions), key=_rank_offer)
    return CostEstimate(samples=samples, checkpoint_interval_seconds=interruptions.interval * HOUR, offers=offers)


def _steps(run: RunCost) -> "Table":
    from rich.markup import escape
    from rich.table import Table

    table = Table("step", "machine", "seconds", "USD", title=f"costs of {run.run}", caption=_caption([run]))
    for step in run.steps:
        table.add_row(step.step, escape(step.machine or ""), _seconds(step.seconds), _usd(step.usd))
    table.add_section()
    table.add_row("all", "", _seconds(run.seconds), _usd(run.usd))
    return table


def _runs(every: Sequence[RunCost]) -> "Table":
    from rich.table import Table

    table = Table("run", "model version", "seconds", "USD", title="costs of runs", caption=_caption(every))
    for name, group in groupby(sorted(every, key=lambda run: run.use_case), lambda run: run.use_case):
        mine = list(group)
        for run in mine:
            version = run.model_version
            table.add_row(run.run, "" if version is None else str(version), *_figures([run]))
        table.add_section()
        table.add_row(f"all of {name}", "", *_figures(mine))
        table.add_section()
    return table


def _figures(every: Sequence[RunCost]) -> tuple[str, str]:
    known = [run.usd for run in every if run.usd is not None]
    missing = len(every) - len(known)
    usd = _usd(sum(known)) if known else "-"
    return _seconds(sum(run.seconds for run in every)), f"{usd}, {missing} unknown" if known and missing else usd


def _caption(every: Sequence[RunCost]) -> str:
    return "" if all(run.usd is not None for run in every) else f"- is {UNPRICED}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


def _usd(value: float | None) -> str:
    return "-" if value is None else f"{value:,.4f}"


def _offers(estimate: CostEstimate) -> "Table":
    from rich.table import Table

    minutes = estimate.checkpoint_interval_seconds / 60
    caption = f"spot: a checkpoint every {minutes:.0f} minutes (Daly 2006), lost work repeated; - is no price"
    table = Table("machine", "GPUs", "hours", "USD", title=f"{estimate.samples:,.0f} samples", caption=caption)
    for offer in estimate.offers:
        usd = "unknown" if offer.usd is None else _usd(offer.usd)
        table.add_row(offer.machine, f"{offer.gpus} x {offer.gpu}", f"{offer.hours:,.2f}", usd)
    return table


def _rank_offer(offer: CostOffer) -> float:
    return float("inf") if offer.usd is None else offer.usd


def _price_offers(samples: float, rates: dict[str, float], interruptions: Interruptions) -> Iterator[CostOffer]:
    for machine in read_machines().values():
        if machine.gpu not in rates:
            continue
        for name, usd in machine.markets:
            # GPUs of one machine are taken to be as fast together as they are many: an upper bound
            hours = samples / (rates[machine.gpu] * machine.gpus) / HOUR
            if name.endswith(" spot"):
                hours = interruptions.expected_hours(hours)
            price = None if usd is None else usd * hours
            yield CostOffer(machine=name, gpu=machine.gpu, gpus=machine.gpus, hours=hours, usd=price)


def _interruptions(args: argparse.Namespace) -> Interruptions:
    times = (args.interrupted_hours, args.checkpoint_seconds / HOUR, args.restart_seconds / HOUR)
    if min(times) <= 0:
        raise UserError("--interrupted-hours, --checkpoint-seconds and --restart-seconds have to be above 0")
    return Interruptions(*times)


def _parse_rate(text: str) -> tuple[str, float]:
    name, _, rate = text.partition("=")
    known = sorted({machine.gpu for machine in read_machines().values() if machine.gpu})
    try:
        value = float(rate)
    except ValueError:
        value = 0.0
    if name not in known or value <= 0:
        raise UserError(f"--measured is {text!r}; give GPU=RATE, samples/s above 0, of one of {', '.join(known)}")
    return name, value
