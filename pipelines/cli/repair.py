"""The command that repairs a damaged online state."""

import argparse
import shlex
from pathlib import Path

from pipelines.cli import options


def add(commands: options.Commands) -> None:
    """Add the command."""
    command = options.add_command(commands, "repair", repair.__doc__)
    command.add_argument("folder", help="folder of the online state, from the server's error message")
    command.add_argument(
        "--accept", action="store_true", help="continue from the readable records and keep copies of the damaged files"
    )
    command.set_defaults(command=repair)


def repair(args: argparse.Namespace) -> int:
    """Show the readable records of a damaged online state, or continue from them. Nothing is removed."""
    from nightshift.tabular.online import repair as online

    folder = Path(args.folder)
    report = (online.repair if args.accept else online.examine)(folder)
    written = "an unknown number" if report.written is None else f"{report.written:,}"
    print(f"{len(report.records):,} records can be read; {written} had been written at least")
    if args.accept:
        return options.say(f"the state has these now, and {folder} keeps the files as they were: *.damaged-*")
    return options.say(f"go on with them   nightshift repair {shlex.quote(args.folder)} --accept")
