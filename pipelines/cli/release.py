"""The command about the release that is under way."""

import argparse

from components.release import manage
from nightshift.errors import UserError
from pipelines.cli import options
from pipelines.cli.models import add_registry, select_state

ACTIONS = {"status": manage.status, "pause": manage.pause, "resume": manage.resume, "abort": manage.abort}


def add(commands: options.Commands) -> None:
    """Add the command."""
    command = options.add_command(commands, "release", release.__doc__)
    command.add_argument("action", choices=["start", *ACTIONS], help="action to take on the release")
    command.add_argument(
        "version", nargs="?", help="number of the version that `start` releases, from `nightshift models`"
    )
    options.add_workspace(command)
    add_registry(command)
    command.add_argument("--name", help="name of the use case (default: the registry's only one)")
    command.set_defaults(command=release)


def release(args: argparse.Namespace) -> int:
    """Start, show, pause, resume or abort a release; `nightshift run release` advances it."""
    if (args.version is not None) != (args.action == "start"):
        raise UserError(f"release {args.action} takes {'a version' if args.version is None else 'no version'}")
    if args.version is None:
        return options.say(ACTIONS[args.action](select_state(args), args.name))
    if not args.version.isdecimal():
        raise UserError(f"version is {args.version!r}; give a number, as in `nightshift models`")
    return options.say(manage.start(select_state(args), args.name, int(args.version)))
