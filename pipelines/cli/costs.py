"""The command about money: what runs have cost, and what a training would on machines that may be taken away."""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nightshift.costs.prices import read_machines
from nightshift.costs.spending import HOUR
from nightshift.errors import UserError
from nightshift.planning.spot import Interruptions
from pipelines.cli import options
from pipelines.engines.local import runs

if TYPE_CHECKING:
    from rich.table import Table

Json = dict[str, Any]
WIDEST = 1000  # characters of a table
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
    command.set_defaults(command=costs)


def costs(args: argparse.Namespace) -> int:
    """Show the costs of runs by step, run, model version and use case, or estimate those of a training."""
    if args.samples or args.measured:
        _print(_estimate_costs(args))
        return 0
    folder = options.state(args).runs
    _print(_steps(runs.find_folder(args.run, folder)) if args.run else _runs(Path(folder)))
    return 0


def _print(table: "Table") -> None:
    """Print a table as wide as it needs: `nightshift costs RUN` takes a whole id."""
    from rich.console import Console
    from rich.measure import Measurement

    console = Console()
    needed = Measurement.get(console, console.options.update(max_width=WIDEST), table).maximum
    Console(width=max(console.width, needed)).print(table)


def _steps(folder: Path) -> "Table":
    from rich.markup import escape
    from rich.table import Table

    summary = _summary(folder)
    if summary is None:
        raise UserError(f"{folder} has no summary.json; write it with `nightshift report {folder.name}`")
    table = Table("step", "machine", "seconds", "USD", title=f"costs of {folder.name}", caption=_caption([summary]))
    for name, step in summary["steps"].items():
        table.add_row(name, escape(step.get("machine") or ""), _seconds(step["seconds"]), _usd(step.get("usd")))
    table.add_section()
    table.add_row("all", "", _seconds(_sum_seconds(summary)), _usd(summary.get("usd")))
    return table


def _runs(folder: Path) -> "Table":
    from rich.table import Table

    summaries = [summary for path in sorted(folder.glob("*")) if not path.is_symlink() and (summary := _summary(path))]
    if not summaries:
        raise UserError(f"no run in {folder} has a summary yet; `nightshift run` makes one")
    table = Table("run", "model version", "seconds", "USD", title="costs of runs", caption=_caption(summaries))
    for name in sorted({summary["config"]["name"] for summary in summaries}):
        mine = [summary for summary in summaries if summary["config"]["name"] == name]
        for summary in mine:
            version = summary["model_version"]
            table.add_row(summary["run"], "" if version is None else str(version), *_figures([summary]))
        table.add_section()
        table.add_row(f"all of {name}", "", *_figures(mine))
        table.add_section()
    return table


def _figures(summaries: list[Json]) -> tuple[str, str]:
    prices = [summary.get("usd") for summary in summaries]
    known = [price for price in prices if price is not None]
    missing = len(prices) - len(known)
    usd = _usd(sum(known)) if known else "-"
    return _seconds(sum(map(_sum_seconds, summaries))), f"{usd}, {missing} unknown" if known and missing else usd


def _summary(folder: Path) -> Json | None:
    path = folder / "summary.json"
    summary: Json | None = json.loads(path.read_text()) if path.exists() else None
    return summary


def _sum_seconds(summary: Json) -> float:
    return sum(step["seconds"] or 0.0 for step in summary["steps"].values())


def _caption(summaries: list[Json]) -> str:
    return "" if all(summary.get("usd") is not None for summary in summaries) else f"- is {UNPRICED}"


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.1f}"


def _usd(value: float | None) -> str:
    return "-" if value is None else f"{value:,.4f}"


def _estimate_costs(args: argparse.Namespace) -> "Table":
    from rich.table import Table

    if not args.samples or not args.measured:
        raise UserError("an expected cost takes both --samples and --measured GPU=RATE, e.g. --measured l4=5200")
    minutes = _interruptions(args).interval * 60
    caption = f"spot: a checkpoint every {minutes:.0f} minutes (Daly 2006), lost work repeated; - is no price"
    table = Table("machine", "GPUs", "hours", "USD", title=f"{args.samples:,.0f} samples", caption=caption)
    for _, row in sorted(_offers(args), key=lambda offer: offer[0]):
        table.add_row(*row)
    return table


def _offers(args: argparse.Namespace) -> Iterator[tuple[float, tuple[str, ...]]]:
    rates = dict(map(_parse_rate, args.measured))
    for machine in read_machines().values():
        if machine.gpu not in rates:
            continue
        for name, usd in machine.markets:
            # GPUs of one machine are taken to be as fast together as they are many: an upper bound
            hours = args.samples / (rates[machine.gpu] * machine.gpus) / HOUR
            if name.endswith(" spot"):
                hours = _interruptions(args).expect_hours(hours)
            price = float("inf") if usd is None else usd * hours
            yield (
                price,
                (name, f"{machine.gpus} x {machine.gpu}", f"{hours:,.2f}", "unknown" if usd is None else _usd(price)),
            )


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
