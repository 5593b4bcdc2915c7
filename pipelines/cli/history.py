"""Commands about what a workspace has seen: its runs, and the drift of a use case."""

import argparse

from nightshift.contracts.listings import DriftHistory, ListedRun
from nightshift.contracts.section import Cell
from nightshift.runtime.errors import UserError
from nightshift.runtime.printable import printable
from nightshift.stats.figures import format_value
from pipelines.cli import options
from pipelines.workspace import Workspace

LISTED = 20


def add(commands: options.Commands) -> None:
    """Add the commands."""
    for function, schema in ((runs, "run_list"), (drift, "drift_history")):
        command = options.add_command(commands, function.__name__, function.__doc__)
        options.add_workspace(command)
        command.add_argument("--limit", type=int, default=LISTED, help="the most runs (default: %(default)s)")
        options.add_json(command, schema)
        command.add_argument("--config", help="use case, by its name or a YAML file (default: the only one with runs)")
        command.set_defaults(command=function)
        if function is runs:
            command.add_argument("--unfinished", action="store_true", help="list those that failed or have not ended")


def runs(args: argparse.Namespace) -> int:
    """List the newest runs, or those that failed or have not ended."""
    listed = Workspace(options.state(args)).list_runs(options.use_case(args), args.limit, args.unfinished)
    if args.json:
        return options.print_document(listed)
    titles = ("run", "day", "started (UTC)", "state")
    _print(titles, [_describe_run(run) for run in listed.runs])
    for problem in listed.problems:
        options.say(f"left out: {printable(problem)}")
    return 0


def drift(args: argparse.Namespace) -> int:
    """Show the verdicts on drift of a use case, and since when each drifted input has drifted."""
    workspace = Workspace(options.state(args))
    history = workspace.read_drift(choose_use_case(workspace, args), args.limit)
    return options.print_document(history) if args.json else _show_drift(history)


def choose_use_case(workspace: Workspace, args: argparse.Namespace) -> str:
    """Return the use case that was named, or the only one with runs.

    Raises:
        UserError: when there are several, or none.
    """
    if name := options.use_case(args):
        return name
    names = sorted({run.use_case for run in workspace.index.runs() if run.use_case})
    if len(names) != 1:
        raise UserError(f"--config is missing; use cases with runs here: {', '.join(names) or 'none'}")
    return names[0]


def _describe_run(run: ListedRun) -> list[Cell]:
    failed = f"failed in {', '.join(run.failed)}" if run.failed else "unfinished"
    state = "complete" if run.complete else failed
    return [run.run, str(run.logical_date or ""), f"{run.started:%Y-%m-%d %H:%M}", state]


def _show_drift(history: DriftHistory) -> int:
    newest = {check.logical_date: check for check in reversed(history.checks)}
    rows: list[list[Cell]] = [[str(day), newest[day].verdict.decision, newest[day].run] for day in sorted(newest)]
    _print(("day", "verdict", "run"), rows)
    drifted: list[list[Cell]] = [
        [one.name, str(one.since), one.psi, one.psi_limit, one.wasserstein, one.wasserstein_limit]
        for one in history.drifted
    ]
    _print(("drifted input", "since", "PSI", "limit", "Wasserstein", "limit"), drifted)
    return 0


def _print(titles: tuple[str, ...], rows: list[list[Cell]]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    if not rows:
        options.say(f"no {titles[0]}")
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in titles:
        table.add_column(title)
    for row in rows:
        table.add_row(*(Text(_write(cell)) for cell in row))
    options.print_table(table)


def _write(cell: Cell) -> str:
    return "" if cell is None else printable(cell) if isinstance(cell, str) else format_value(cell, "plain")
