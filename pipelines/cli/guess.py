"""Guess a config from a file: read it, propose, ingest every row with the proposal, write it down."""

import shlex
import textwrap
from argparse import Namespace
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nightshift.runtime import strict_yaml
from nightshift.runtime.errors import UserError
from nightshift.runtime.printable import printable
from pipelines.cli import options

if TYPE_CHECKING:
    from components.ingestion.discovery import QueryResult, SourceFiles
    from nightshift.data.guessing.proposal import Proposal
    from nightshift.data.guessing.roles import Choices

WIDTH = 110  # characters of a comment


def add_guess(actions: options.Commands) -> None:
    """Add the action to `nightshift config`."""
    command = options.add_command(actions, "guess", guess.__doc__)
    command.add_argument(
        "file", nargs="?", help="table with all days, file or folder of files by day; a path, s3:// or gs://"
    )
    command.add_argument("--data", help="URI of a database, in place of the file: postgresql://user@host/database")
    command.add_argument("--query", help="SQL that returns the rows of all days from --data")
    command.add_argument("--label", help="column to predict (default: guessed)")
    command.add_argument("--positive", action="append", default=[], help="label that counts as positive; repeatable")
    command.add_argument("--time", help="column of the event's time (default: guessed)")
    command.add_argument("--id", help="column of the event's id (default: guessed)")
    order = command.add_mutually_exclusive_group()
    order.add_argument("--day-first", action="store_true", default=None, help="read 03/04/2025 as April 3rd")
    order.add_argument("--month-first", action="store_false", dest="day_first", help="read 03/04/2025 as March 4th")
    command.add_argument("--timezone", default="UTC", help="zone of times that carry none (default: %(default)s)")
    command.add_argument("--label-delay", type=int, metavar="DAYS", help="days until every outcome is known")
    command.add_argument(
        "--allow-empty-days", action="store_true", help="no rows are lost on days that have none, though others have"
    )
    command.add_argument("--output", help="file to write (default: <name of the file>.yaml, here)")
    command.set_defaults(command=guess)


def guess(args: Namespace) -> int:
    """Write a config for a file or query, with what it assumes and why, after every row was ingested with it."""
    from components.ingestion import discovery
    from nightshift.config import parse
    from nightshift.data.guessing.roles import Choices

    choices = Choices(
        args.label,
        tuple(args.positive),
        args.time,
        args.id,
        args.day_first,
        args.timezone,
        args.label_delay,
        args.allow_empty_days,
    )
    table = _find_table(args)
    output = Path(args.output or f"{table.name}.yaml")
    if output.exists():
        raise UserError(f"{output} exists; move it away, or give another --output")
    proposal = propose(table, choices)
    facts = discovery.verify(table, parse(proposal.config), proposal.days, proposal.last)
    output.write_text(write_config(table, proposal, facts), encoding="utf-8")
    for sentence in [*(sentence for notes in proposal.notes.values() for sentence in notes), *facts]:
        options.say(f"- {sentence}")
    flags = ["--config", str(output), "--data", table.folder, "--date", str(proposal.last)]
    return options.say(f"wrote {output}; read it, then: nightshift run {shlex.join(flags)}")


def _find_table(args: Namespace) -> "SourceFiles | QueryResult":
    """Return the table that the flags name.

    Raises:
        UserError: when they name none or two.
    """
    from components.ingestion import discovery

    if [bool(args.file), bool(args.data), bool(args.query)] not in ([True, False, False], [False, True, True]):
        raise UserError("give a file, or the URI of a database as --data with a --query")
    if args.file:
        return discovery.find_table(args.file)
    if "{date}" in args.query:
        raise UserError("--query has {date}; give a query of all days, to which the condition is added")
    if args.timezone != "UTC":
        raise UserError(
            f"--timezone is {args.timezone!r}, but a database selects the rows of a day in UTC; convert the times in "
            "the query, in PostgreSQL as: booked_at at time zone 'Europe/Paris'"
        )
    return discovery.QueryResult(args.data, args.query.strip().removesuffix(";"))


def propose(table: "SourceFiles | QueryResult", choices: "Choices") -> "Proposal":
    """Return the config that a table suggests.

    Raises:
        UserError: when it cannot be read, or a choice is a person's.
    """
    from components.ingestion.discovery import SourceFiles
    from nightshift.data.guessing import derivations, profiles, proposal, roles

    settings, reasons, frame = table.read()
    separator = str(settings.get("separator", ","))
    now = datetime.now(UTC).replace(tzinfo=None)
    reading = profiles.Reading(separator, now, choices.day_first, choices.timezone)
    profile = profiles.profile(frame, reading)
    derived, notes = derivations.find(profile.columns, choices) if isinstance(table, SourceFiles) else ({}, [])
    if derived:
        profile = profiles.profile(derivations.apply(frame, derived, profile.settings), reading)
    assigned = roles.assign(profile.columns, choices)
    spelled = settings | profile.settings | {key: value for key, value in assigned.settings.items() if value}
    source: dict[str, Any] = table.describe(assigned.columns["event_time"]) | ({"format": spelled} if spelled else {})
    source |= {"columns": derived} if derived else {}
    return proposal.propose(table.name, source, assigned, choices, [*reasons, *profile.reasons, *notes])


def write_config(table: "SourceFiles | QueryResult", proposal: "Proposal", facts: list[str]) -> str:
    """Return a config as YAML, each section below what was assumed for it."""
    head = f"Guessed by `nightshift config guess` from {table.uris[-1]}. Comments say what was assumed, and why."
    lines = [*_comment([head, *facts])]
    for section, value in proposal.config.items():
        lines += [*_comment(proposal.notes.get(section, [])), _write_section(section, value, proposal.costs)]
    return "\n".join(lines) + "\n"


def _write_section(section: str, value: Any, costs: list[str]) -> str:
    """Return a section as YAML; that of proposed features has a line for each group, with its cost."""
    if section != "features" or not costs:
        return strict_yaml.dump({section: value})
    lines = zip(value, costs, strict=True)
    return "\n".join(["features:", *(f"- {strict_yaml.dump_line(line)}  # {cost}" for line, cost in lines)])


def _comment(sentences: list[str]) -> Iterator[str]:
    for sentence in sentences:
        yield from textwrap.wrap(printable(sentence), WIDTH, initial_indent="# ", subsequent_indent="#   ")
