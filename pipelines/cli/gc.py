"""The command that removes expired runs, days, checkpoints and versions."""

import argparse
import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from nightshift.config import parse
from nightshift.contracts.listings import KeptVersions, RemovableKind, Removal, Removals
from pipelines import configs
from pipelines.cli import options

if TYPE_CHECKING:
    from pipelines.gc.retention import RemovalPlan, StoredItem


def add(commands: options.Commands) -> None:
    """Add the command."""
    command = options.add_command(commands, "gc", gc.__doc__)
    options.add_workspace(command)
    options.add_config(command)
    command.add_argument("--lake", help="URI of the lake (default: the workspace's)")
    command.add_argument("--checkpoints", help="URI of the checkpoints (default: the workspace's)")
    command.add_argument("--delete", action="store_true", help="delete the listed files (default: only list them)")
    options.add_json(command, "removals")
    command.set_defaults(command=gc)


def gc(args: argparse.Namespace) -> int:
    """List or delete expired runs, days, checkpoints and versions that no live model needs."""
    from rich.console import Console

    from pipelines.gc import sweep

    state, now = options.state(args), datetime.now(UTC)
    config = parse(configs.load(args.config or configs.DEFAULT))
    state = replace(state, lake=args.lake or state.lake, checkpoints=args.checkpoints or state.checkpoints)
    plan = (sweep.collect if args.delete else sweep.plan_removals)(state, config, now)
    if args.json:
        return options.print_document(describe_removals(plan, config.name, args.delete))
    for problem in plan.problems:
        print(f"nightshift: kept: {problem}", file=sys.stderr)
    for sentence in sweep.explain_overdue(plan.overdue):
        print(f"nightshift: kept: {sentence}", file=sys.stderr)
    if plan.empty:
        return options.say(f"nothing of {config.name!r} is past its age")
    console = Console()
    console.print(sweep.table(plan, "removed" if args.delete else "would be removed", now))
    console.print(sweep.lineage(plan.lineage))
    return 0 if args.delete else options.say(f"remove it   nightshift {shlex.join(sys.argv[1:])} --delete")


def describe_removals(plan: "RemovalPlan", use_case: str, deleted: bool) -> Removals:
    """Return a plan as a document."""
    kept = [KeptVersions.model_validate(line, from_attributes=True) for line in plan.lineage]
    items = list(_describe_items(plan))
    return Removals(
        use_case=use_case, deleted=deleted, items=items, kept=kept, problems=plan.problems, overdue=plan.overdue
    )


def _describe_items(plan: "RemovalPlan") -> Iterator[Removal]:
    groups: dict[RemovableKind, Sequence[StoredItem]] = {
        RemovableKind.VERSION: plan.versions,
        RemovableKind.RUN: plan.runs,
        RemovableKind.PARTITION: plan.partitions,
        RemovableKind.UNFINISHED: plan.unfinished,
    }
    for kind, items in groups.items():
        for item in items:
            yield Removal(kind=kind, name=item.name, since=item.since, size_bytes=item.size)
    for folder in plan.leftovers:
        yield Removal(kind=RemovableKind.LEFTOVER, name=folder, since=None, size_bytes=None)
