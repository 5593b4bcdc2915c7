"""Commands about registered models and the local endpoint."""

import argparse
from dataclasses import replace

from components.deployment import manage
from nightshift.contracts.state import State
from pipelines.cli import options


def add(commands: options.Commands) -> None:
    """Add the commands."""
    for function in (models, promote, rollback, stop):
        command = options.add_command(commands, function.__name__, str(function.__doc__))
        options.add_workspace(command)
        if function is promote:
            command.add_argument("version", help="the version's number, as in `nightshift models`")
        if function is not stop:
            add_registry(command)
        command.add_argument("--name", help="the use case (default: the only one)")
        command.set_defaults(command=function)


def models(args: argparse.Namespace) -> int:
    """List the registered model versions."""
    manage.models(kept(args), args.name)
    return 0


def promote(args: argparse.Namespace) -> int:
    """Make a version the champion and serve it."""
    manage.promote(kept(args), args.version, args.name)
    return 0


def rollback(args: argparse.Namespace) -> int:
    """Restore the previous champion."""
    manage.rollback(kept(args), args.name)
    return 0


def stop(args: argparse.Namespace) -> int:
    """Stop the local endpoint."""
    manage.stop(options.state(args), args.name)
    return 0


def add_registry(command: argparse.ArgumentParser) -> None:
    """Add where models are registered, where it is not in the workspace."""
    command.add_argument("--registry", help="a tracking server or another folder (default: the workspace's)")
    command.add_argument("--audit", help="root of a tracking server's release records")


def kept(args: argparse.Namespace) -> State:
    """Return the workspace's state, or with another registry."""
    usual = options.state(args)
    # a tracking server's records are never guessed to be in the workspace
    return replace(usual, registry=args.registry, audit=args.audit or "") if args.registry else usual
