"""Commands about what is fixed before a run: the compiled pipelines."""

import argparse
from pathlib import Path

from pipelines import arguments
from pipelines.cli import options
from pipelines.environments import SITES, site


def add(commands: options.Commands) -> None:
    """Add the commands."""
    command = options.add_command(commands, "compile", compile_all.__doc__)
    command.add_argument("--environment", action="append", help=f"one of {', '.join(SITES)} (default: all)")
    command.add_argument("--folder", default=str(arguments.COMPILED), help="where to write (default: %(default)s)")
    command.set_defaults(command=compile_all)


def compile_all(args: argparse.Namespace) -> int:
    """Compile the pipelines to the YAML that every engine reads."""
    from pipelines.compiling import compile_pipelines

    for name in args.environment or SITES:
        for path in compile_pipelines(site(name), Path(args.folder)):
            options.say(f"wrote {path}")
    return 0
