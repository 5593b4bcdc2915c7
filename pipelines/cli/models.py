"""Commands about registered models and the local endpoint."""

import argparse
import subprocess
import sys

from pipelines.cli import options

ACTIONS = {
    "models": "List the registered model versions.",
    "promote": "Make a version the champion and serve it.",
    "rollback": "Restore the previous champion.",
    "stop": "Stop the local endpoint.",
}


def add(commands: options.Commands) -> None:
    """Add the commands."""
    for action, text in ACTIONS.items():
        command = options.add_command(commands, action, text)
        options.add_workspace(command)
        if action == "promote":
            command.add_argument("version", help="the version's number, as in `nightshift models`")
        command.add_argument("--name", help="the use case (default: the only one)")
        command.set_defaults(command=manage, action=action)


def manage(args: argparse.Namespace) -> int:
    """Run one of the deployment component's own commands."""
    command = [sys.executable, "-m", "components.deployment.manage", args.action]
    command += [args.version] if args.action == "promote" else []
    command += ["--registry", options.state(args).registry]
    command += ["--name", args.name] if args.name else []
    return subprocess.run(command, check=False).returncode
