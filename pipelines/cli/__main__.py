"""The command line: `nightshift <command>`, the same as `python -m pipelines.cli <command>`."""

import argparse
import sys

from components.common import stores
from components.common.errors import UnavailableError, UserError
from components.common.printable import printable_lines
from components.common.step import USER_ERROR
from pipelines.cli import (
    collectives,
    costs,
    definitions,
    kubeflow,
    models,
    perf,
    plan,
    release,
    repair,
    runs,
    scale,
    tune,
    upkeep,
)

INTERRUPTED = 130


def main() -> None:
    """Run one command and exit: 0 on success, 1 when a step failed, 2 when the user has something to fix."""
    args = _parser().parse_args()
    try:
        sys.exit(args.command(args))
    except UserError as error:
        print(f"nightshift: {printable_lines(str(error))}", file=sys.stderr)
        sys.exit(USER_ERROR)
    except UnavailableError as error:
        print(f"nightshift: {printable_lines(str(error))}", file=sys.stderr)
        sys.exit(1)
    except OSError as error:  # of this machine's files: stores are read and written by the steps
        print(f"nightshift: {stores.explained(error, error.filename)}", file=sys.stderr)
        sys.exit(USER_ERROR)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="nightshift", description="A daily GPU machine-learning pipeline.")
    commands = parser.add_subparsers(required=True, metavar="command")
    for noun in (
        runs,
        kubeflow,
        definitions,
        models,
        release,
        plan,
        costs,
        perf,
        tune,
        scale,
        collectives,
        repair,
        upkeep,
    ):
        noun.add(commands)
    return parser


if __name__ == "__main__":
    main()
