"""Flags by which commands train as planned."""

import argparse
from typing import Any

from nightshift.runtime.errors import UserError
from pipelines import configs


def add_plan(command: argparse.ArgumentParser) -> None:
    """Add a plan of a training, and whether a stand-in is trained instead."""
    command.add_argument(
        "--plan", metavar="FILE", help="train the network as this file of `nightshift perf plan --write` says"
    )
    command.add_argument(
        "--scale-down",
        action="store_true",
        help="with --plan: train a small stand-in in the same layout on this machine, a process a GPU",
    )


def planned_config(args: argparse.Namespace) -> dict[str, Any]:
    """Return the config that a plan makes as a parameter `config`; empty without a plan.

    Raises:
        UserError: when only a stand-in is asked for.
    """
    if not args.plan:
        if args.scale_down:
            raise UserError("--scale-down is for a plan; name its file: --plan plan.yaml")
        return {}
    from pipelines.configs import plans  # which imports all tasks; the other commands of a run need none

    return {"config": plans.load_planned(args.config or configs.DEFAULT, args.plan, args.scale_down)}
