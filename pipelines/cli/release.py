"""The command about the release that is under way."""

import argparse

from components.release import manage
from nightshift import registry
from nightshift.contracts.state import State
from nightshift.registry.audit_log import log_action
from nightshift.runtime.errors import UserError
from pipelines.cli import options

ACTIONS = {"pause": manage.pause, "resume": manage.resume, "abort": manage.abort}


def add(commands: options.Commands) -> None:
    """Add the command."""
    command = options.add_command(commands, "release", release.__doc__)
    command.add_argument("action", choices=["status", "start", *ACTIONS], help="action to take on the release")
    command.add_argument(
        "version", nargs="?", help="number of the version that `start` releases, from `nightshift models`"
    )
    options.add_reason(command)
    options.add_json(command, "release")
    options.add_workspace(command)
    options.add_registry(command)
    options.add_use_case(command)
    command.set_defaults(command=release)


def release(args: argparse.Namespace) -> int:
    """Start, show, pause, resume or abort a release; `nightshift run release` advances it."""
    if (args.version is not None) != (args.action == "start"):
        raise UserError(f"release {args.action} takes {'a version' if args.version is None else 'no version'}")
    if args.version and not args.version.isdecimal():
        raise UserError(f"version is {args.version!r}; give a number, as in `nightshift models`")
    state = options.select_state(args)
    status = manage.status(state, options.use_case(args)) if args.action == "status" else _act(state, args)
    return options.print_document(manage.read(state, options.use_case(args))) if args.json else options.say(status)


def _act(state: State, args: argparse.Namespace) -> str:
    name = registry.choose_name(state.registry, options.use_case(args))
    subject = f"version {args.version}" if args.version else "release"
    with log_action(state, f"release {args.action}", name, subject, args.reason):
        return manage.start(state, name, int(args.version)) if args.version else ACTIONS[args.action](state, name)
