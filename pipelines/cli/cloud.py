"""Commands for the cloud environments that `infra/` creates."""

import argparse
import subprocess
import sys
from pathlib import Path

from nightshift.runtime.errors import UserError
from pipelines.cli import options


def add(commands: options.Commands) -> None:
    """Add the command, whose flags are those of `infra.cloud`."""
    command = options.add_command(commands, "cloud", cloud.__doc__)
    command.add_argument("action", help="init: write an answers file; for its flags see nightshift cloud init --help")
    command.add_argument("flags", nargs=argparse.REMAINDER, help="flags of the action")
    command.set_defaults(command=cloud)


def cloud(args: argparse.Namespace) -> int:
    """Configure an environment in a cloud; needs a checkout of the repository, for `infra/`."""
    if not Path("infra", "cloud").is_dir():
        raise UserError(f"{Path.cwd()} has no infra/cloud; run nightshift cloud in a checkout of the repository")
    return subprocess.run([sys.executable, "-m", "infra.cloud", args.action, *args.flags], check=False).returncode
