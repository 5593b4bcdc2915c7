"""Commands that write a project of one's own and update its files."""

import argparse
import shlex
from pathlib import Path

from nightshift.runtime.printable import printable_lines
from pipelines import arguments, configs
from pipelines.cli import options
from pipelines.scaffold import project, updates


def add(commands: options.Commands) -> None:
    """Add the commands."""
    _add_init(commands)
    _add_update(commands)


def _add_init(commands: options.Commands) -> None:
    command = options.add_command(commands, "init", init.__doc__)
    command.add_argument("name", help="name of the use case: lowercase letters, digits and dashes, such as my-fraud")
    command.add_argument(
        "--config",
        default=configs.DEFAULT,
        help="config to begin with: for tables fraud, leads, demand or tickets, for images digits, for texts topics, "
        "any other shipped one, or a YAML file (default: %(default)s)",
    )
    command.add_argument(
        "--data", default=arguments.SIMULATOR, help="folder or URI of the raw events (default: %(default)s)"
    )
    command.set_defaults(command=init)


def _add_update(commands: options.Commands) -> None:
    command = options.add_command(commands, "update", update.__doc__)
    action = command.add_mutually_exclusive_group()
    action.add_argument("--apply", action="store_true", help="write the files (default: only show what would change)")
    action.add_argument("--check", action="store_true", help="exit with 1 if something would change, for CI")
    command.set_defaults(command=update)


def init(args: argparse.Namespace) -> int:
    """Write a project of your own into the current folder, which has to be empty."""
    for file in project.create(Path(), args.name, args.config, args.data):
        options.say(f"wrote {file}")
    data = [] if args.data == arguments.SIMULATOR else ["--data", args.data]
    return options.say(
        f"next: {shlex.join(['nightshift', 'run', '--config', project.CONFIG.format(name=args.name), *data])}"
    )


def update(args: argparse.Namespace) -> int:
    """Show what the installed version would change in the files that `nightshift init` has written, or change them."""
    recorded, rendered, changes = updates.prepare(Path())
    for change in changes:
        options.say(printable_lines(change.describe()))
    conflicts = [change.file for change in changes if change.has_conflict]
    if args.apply:
        updates.apply(Path(), rendered, changes)
    versions = f"{recorded.version} -> {rendered.version}"
    options.say(f"{versions}: {len(changes)} files {'written' if args.apply else 'to change'}")
    if conflicts:
        options.say(f"you and {rendered.version} have changed the same lines, marked in: {', '.join(conflicts)}")
    elif changes and not args.apply:
        options.say("next: nightshift update --apply")
    return int(bool(conflicts if args.apply else changes and args.check))
