"""The command that finds events by an identifier, such as all of a customer."""

import argparse
from typing import TYPE_CHECKING

from nightshift.contracts.listings import EventList
from nightshift.data.dates import parse_date
from nightshift.runtime.printable import printable
from pipelines import event_search
from pipelines.cli import options
from pipelines.cli.history import choose_use_case
from pipelines.workspace import Workspace

if TYPE_CHECKING:
    from rich.table import Table


def add(commands: options.Commands) -> None:
    """Add the command."""
    command = options.add_command(commands, "events", events.__doc__)
    command.add_argument("id", help="the identifier, such as a customer's")
    command.add_argument("--column", default="", help="column that holds it (default: the first but the event's own)")
    command.add_argument("--last", help="newest day to search, YYYY-MM-DD (default: the newest that a run has read)")
    command.add_argument(
        "--days", type=int, default=event_search.DAYS, help="days to search, the newest first (default: %(default)s)"
    )
    command.add_argument("--features", action="store_true", help="show the features of each event too")
    options.add_workspace(command)
    command.add_argument("--config", help="use case, by its name or a YAML file (default: the only one with runs)")
    options.add_json(command, "event_list")
    command.set_defaults(command=events)


def events(args: argparse.Namespace) -> int:
    """Find the events of a customer or another identifier, with what each version scored them."""
    workspace = Workspace(options.state(args))
    last = parse_date(args.last) if args.last else None
    query = event_search.EventQuery(args.column, args.id, last, args.days, args.features)
    matching = event_search.find_events(workspace, choose_use_case(workspace, args), query)
    if args.json:
        return options.print_document(matching)
    from rich.console import Console

    Console().print(*(_table(matching, number) for number in range(len(matching.events))))
    return options.say(_describe_search(matching))


def _table(matching: EventList, number: int) -> "Table":
    from rich import box
    from rich.table import Table
    from rich.text import Text

    event = matching.events[number]
    table = Table(title=f"{event.day}", title_justify="left", box=box.SIMPLE_HEAD, show_header=False, pad_edge=False)
    scores = {f"version {score.get('model_version', '?')}": _write_score(score) for score in event.scores}
    for name, value in {**event.values, **scores, **event.features}.items():
        table.add_row(Text(printable(name)), Text(printable(value)))
    return table


def _write_score(score: dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in score.items() if name != "model_version")


def _describe_search(matching: EventList) -> str:
    days = matching.searched
    span = f"{days[-1]} to {days[0]}, " if days else ""
    older = f"; older days: --last {matching.older}" if matching.older else ""
    gone = f"; the files of {len(matching.missing)} days are gone" if matching.missing else ""
    count = len(matching.events) + matching.left_out
    return f"{count:,} events in {len(days):,} days, {span}{matching.rows:,} rows{gone}{older}"
