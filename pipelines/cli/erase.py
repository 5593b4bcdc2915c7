"""The command that erases a person, or another entity, from every store of a use case."""

import argparse
from typing import TYPE_CHECKING

from nightshift.config import Config, parse
from nightshift.config.columns import Holds
from nightshift.contracts.erasure import ErasureDecision
from nightshift.data import values
from nightshift.erasure import texts
from nightshift.erasure.subject import DataSubject
from nightshift.runtime.errors import UserError, nearest
from nightshift.runtime.printable import printable
from pipelines import configs
from pipelines.cli import options

if TYPE_CHECKING:
    from rich.table import Table

CUSTOMER = "customer"


def add(commands: options.Commands) -> None:
    """Add the command."""
    command = options.add_command(commands, "erase", erase.__doc__)
    options.add_workspace(command)
    options.add_config(command)
    subject = command.add_mutually_exclusive_group(required=True)
    subject.add_argument("--customer", metavar="ID", help="id in the column that the config names as columns.customer")
    subject.add_argument(
        "--entity",
        metavar="COLUMN=ID",
        help="id in another column of ids, by its name or its role in the config, such as group=P-17",
    )
    command.add_argument("--reason", help="why, for the record; needed unless --dry-run is given")
    command.add_argument("--dry-run", action="store_true", help="only list files and bytes by store")
    command.add_argument("--lake", help="URI of the lake (default: the workspace's)")
    command.add_argument("--checkpoints", help="URI of the checkpoints (default: the workspace's)")
    command.add_argument("--redis-file", help="file with the URL of the Redis that servers share their online state in")
    options.add_json(command, "erasure_decision")
    command.set_defaults(command=erase)


def erase(args: argparse.Namespace) -> int:
    """Erase a person or another entity from every store of a use case, and prove its absence by a search."""
    from dataclasses import replace

    from nightshift.http.bearer import read_secret
    from nightshift.serving.options import REDIS_URL
    from pipelines.erasure import carrying_out
    from pipelines.erasure.request import ErasureRequest

    config, state = parse(configs.load(args.config or configs.DEFAULT)), options.state(args)
    request = ErasureRequest(
        replace(state, lake=args.lake or state.lake, checkpoints=args.checkpoints or state.checkpoints),
        config,
        _read_subject(args, config),
        args.reason or "",
        read_secret("redis-file", args.redis_file, REDIS_URL) if args.redis_file else None,
    )
    if not args.dry_run:
        _check_reason(request.reason, request.subject)
    decision = (carrying_out.plan if args.dry_run else carrying_out.carry_out)(request)
    hits = decision.proof.hits if decision.proof else {}
    if args.json:
        return options.print_document(decision, int(bool(hits)))
    return _print(decision, hits)


def _read_subject(args: argparse.Namespace, config: Config) -> DataSubject:
    """Return the entity that the flags name.

    Raises:
        UserError: when the config has no such column, or the id is empty.
    """
    column, sign, value = (CUSTOMER, "=", args.customer) if args.customer is not None else args.entity.partition("=")
    ids = config.columns.holding(Holds.IDENTIFIER)
    role = next((role for role, name in ids.items() if column in (role, name)), None)
    if role is None or not sign:
        known = [f"{name} ({role})" for role, name in ids.items()]
        raise UserError(
            f"{column!r} is no column of ids of use case {config.name!r}; give --entity COLUMN=ID with one of: "
            f"{', '.join(known)}{nearest(column, ids.values())}"
        )
    if not config.columns.holding(Holds.LABEL):
        raise UserError(
            f"task {config.task.kind!r} packs texts of several entities into one row, which cannot be taken apart; "
            "take the entity's texts out of the source, remove the use case's folder in the lake, and train anew"
        )
    canonical = values.canonical(value)
    if not canonical:
        raise UserError(f"the id is {value!r}; give it as column {ids[role]!r} has it")
    return DataSubject(role, ids[role], canonical, ids["event_id"])


def _check_reason(reason: str, subject: DataSubject) -> None:
    """Check that there is a reason, which the record may hold.

    Raises:
        UserError: when there is none, or it names the entity.
    """
    if not reason.strip():
        raise UserError("--reason is missing; say why, such as 'request 2025-117', or give --dry-run")
    if subject.value in reason or texts.count(reason, subject):
        raise UserError("--reason names the id, which the record may not hold; name the request instead")


def _print(decision: ErasureDecision, hits: dict[str, int]) -> int:
    from rich.console import Console

    Console().print(_build_table(decision))
    for kept in decision.kept:
        print(f"kept: {kept.what}{' ' if kept.names else ''}{', '.join(kept.names)}: {kept.reason}")
    if decision.proof is None:
        return 0
    for uri, count in hits.items():
        print(f"still there: {count} in {printable(uri)}")
    files, size = decision.proof.files, decision.proof.size_bytes
    print(f"searched {files:,} files, {size:,} bytes: {sum(hits.values())} occurrences")
    print(f"decision {decision.decision}")
    return int(bool(hits))


def _build_table(decision: ErasureDecision) -> "Table":
    from rich import box
    from rich.filesize import decimal
    from rich.table import Table

    title = "would be erased" if decision.proof is None else "erased"
    table = Table("store", "what is done", title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("files", "rows or mentions", "size"):
        table.add_column(heading, justify="right")
    for store in decision.stores:
        table.add_row(store.store, store.action, f"{store.files:,}", f"{store.rows:,}", decimal(store.size_bytes))
    return table
