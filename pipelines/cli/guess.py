"""Guess a config from a file: read it, propose, ingest every row with the proposal, write it down."""

import re
import textwrap
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nightshift import storage
from nightshift.errors import UserError
from nightshift.printable import printable
from nightshift.splits import Days, plan
from pipelines.cli import options
from pipelines.configs import strict_yaml

if TYPE_CHECKING:
    import pandas as pd

    from nightshift.config import Config
    from nightshift.guessing.proposal import Proposal
    from nightshift.guessing.roles import Choices

DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
MOST_PREAMBLE = 20  # rows of a sheet before its header
WIDTH = 110  # characters of a comment


def add_guess(actions: options.Commands) -> None:
    """Add the action to `nightshift config`."""
    command = options.add_command(actions, "guess", guess.__doc__)
    command.add_argument("file", help="table with all days, file or folder of files by day; a path, s3:// or gs://")
    command.add_argument("--label", help="column to predict (default: guessed)")
    command.add_argument("--positive", action="append", default=[], help="label that counts as positive; repeatable")
    command.add_argument("--time", help="column of the event's time (default: guessed)")
    command.add_argument("--id", help="column of the event's id (default: guessed)")
    order = command.add_mutually_exclusive_group()
    order.add_argument("--day-first", action="store_true", default=None, help="read 03/04/2025 as April 3rd")
    order.add_argument("--month-first", action="store_false", dest="day_first", help="read 03/04/2025 as March 4th")
    command.add_argument("--timezone", default="UTC", help="zone of times that carry none (default: %(default)s)")
    command.add_argument("--label-delay", type=int, metavar="DAYS", help="days until every outcome is known")
    command.add_argument("--output", help="file to write (default: <name of the file>.yaml, here)")
    command.set_defaults(command=guess)


@dataclass(frozen=True)
class Table:
    """A table, or the sample of one.

    Attributes:
        folder: URI of the folder to give as `--data`.
        layout: `files` or `table` of the config's `source`.
        uris: the files that are read, in order of days.
    """

    folder: str
    layout: dict[str, str]
    uris: list[str]

    @property
    def name(self) -> str:
        """A use case's name."""
        stem = re.sub(r"[{*]?date[}*]?", "", next(iter(self.layout.values())).partition(".")[0])
        name = re.sub("[^a-z0-9]+", "-", stem.lower()).strip("-") or Path(self.folder).name.lower()
        return name if re.match("[a-z]", name) else f"events-{name}".rstrip("-")


def guess(args: Namespace) -> int:
    """Write a config for a file, with what it assumes and why, after every row was ingested with it."""
    from nightshift.config import parse
    from nightshift.guessing.roles import Choices

    choices = Choices(
        args.label, tuple(args.positive), args.time, args.id, args.day_first, args.timezone, args.label_delay
    )
    table = find_table(args.file)
    output = Path(args.output or f"{table.name}.yaml")
    if output.exists():
        raise UserError(f"{output} exists; move it away, or give another --output")
    proposal = propose(table, choices)
    facts = verify(table, parse(proposal.config), proposal.days)
    output.write_text(write_config(table, proposal, facts), encoding="utf-8")
    for sentence in [*(sentence for notes in proposal.notes.values() for sentence in notes), *facts]:
        options.say(f"- {sentence}")
    date = proposal.days.last
    return options.say(
        f"wrote {output}; read it, then: nightshift run --config {output} --data {table.folder} --date {date}"
    )


def find_table(uri: str) -> Table:
    """Return the table that a URI names: a file, or those of a folder.

    Raises:
        UserError: when it names nothing, or a folder of several tables.
    """
    from components.ingestion import formats

    folder, name = uri.rstrip("/").rpartition("/")[::2]
    folder = folder or ("/" if uri.startswith("/") else ".")
    if formats.find_kind(name) or name.endswith(".zip"):
        template = DATE.sub("{date}", name)
        days = [other for other in storage.names(folder) if DATE.sub("{date}", other) == template]
        return _by_day(folder, template, days) if len(days) > 1 else Table(folder, {"table": name}, [uri])
    names = [other for other in storage.names(uri) if formats.find_kind(other)]
    templates = sorted({DATE.sub("{date}", other) for other in names})
    if len(templates) != 1:
        listed = ", ".join(templates)[:300] or "no file"
        raise UserError(f"{uri} holds {listed}; give one file whose name ends in one of {', '.join(formats.FORMATS)}")
    if "{date}" in templates[0]:
        return _by_day(uri, templates[0], names)
    return Table(uri, {"table": names[0]}, [storage.join(uri, names[0])])


def _by_day(folder: str, template: str, names: list[str]) -> Table:
    return Table(folder, {"files": template}, [storage.join(folder, name) for name in sorted(names)])


def propose(table: Table, choices: "Choices") -> "Proposal":
    """Return the config that a table suggests.

    Raises:
        UserError: when it cannot be read, or a choice is a person's.
    """
    from nightshift.guessing import profiles, proposal, roles

    settings, reasons, frame = read(table)
    separator = str(settings.get("separator", ","))
    now = datetime.now(UTC).replace(tzinfo=None)
    profile = profiles.profile(frame, profiles.Reading(separator, now, choices.day_first, choices.timezone))
    assigned = roles.assign(profile.columns, choices)
    spelled = settings | profile.settings | {key: value for key, value in assigned.settings.items() if value}
    source: dict[str, Any] = table.layout | ({"format": spelled} if spelled else {})
    return proposal.propose(table.name, source, assigned, choices, [*reasons, *profile.reasons])


def read(table: Table) -> "tuple[dict[str, Any], list[str], pd.DataFrame]":
    """Return how a table's files are written, why, and all rows; the newest file says it for all.

    Raises:
        UserError: naming the file that cannot be read.
    """
    import pandas as pd

    from components.ingestion import formats
    from nightshift.config.source import Format

    contents = {uri: storage.read_bytes(uri) for uri in table.uris}
    uri = table.uris[-1]
    try:
        settings, reasons = _find_format(uri, contents[uri])
        frames = []
        for uri, data in contents.items():
            frames.append(formats.read_rows(uri, data, Format(**settings)))
    except UserError as error:
        raise UserError(f"{uri} {error}") from None
    frame = frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)
    if frame.empty:
        raise UserError(f"{uri} has no rows")
    return settings, reasons, frame.loc[:, ~frame.columns.duplicated()]


def _find_format(uri: str, data: bytes) -> tuple[dict[str, Any], list[str]]:
    """Return what `source.format` says of a file as a whole, and why."""
    from components.ingestion import formats
    from nightshift.guessing import dialect

    with formats.explained(uri):
        name, data = formats.unpack(uri, data)
    match formats.find_kind(name):
        case "CSV":
            guessed = dialect.guess(data)
            return guessed.settings, guessed.reasons
        case "Excel":
            return _find_sheet_header(name, data)
        case "tar":
            raise UserError(
                "holds images or texts; copy pipelines/configs/digits.yaml or topics.yaml, see docs/classes.md"
            )
    return {}, []


def _find_sheet_header(name: str, data: bytes) -> tuple[dict[str, Any], list[str]]:
    """Return how many rows of a sheet stand before the first that names each column."""
    from components.ingestion import formats
    from nightshift.config.source import Format

    for rows in range(MOST_PREAMBLE):
        names = formats.read_rows(name, data, Format(preamble_lines=rows)).columns
        if not names.str.startswith(formats.UNNAMED).any():
            return ({"preamble_lines": rows}, [f"The header is row {rows + 1}."]) if rows else ({}, [])
    raise UserError(f"has no row among its first {MOST_PREAMBLE} that names each column; write the header first")


def verify(table: Table, config: "Config", days: Days) -> list[str]:
    """Ingest every row with a config, writing nothing, and say what became of them.

    Raises:
        UserError: when a run would stop: days are missing, or too many rows are quarantined.
    """
    from components.ingestion import core, sources
    from components.ingestion.tally import Totals

    needed = plan(config, days.last)
    source = sources.connect(table.folder, config, needed.labels_due)
    sources.require(source, config, needed.events)
    frames = {day: source.read(day).load() for day in days if source.has(day)}
    splits = core.split_alike(frames, config, needed.labels_due) if source.alike else None
    splits = splits or {day: core.split(frame, config, day, day <= needed.labels_due) for day, frame in frames.items()}
    totals = Totals(Counter(), {})
    for split in splits.values():
        totals.add(split.labels, split.quarantined_labels)
    limits = config.quarantine
    if rule := totals.excess(limits.max_share):
        rows = "\n  ".join(core.examples([split.bad for split in splits.values()], config, rule))
        raise UserError(
            f"with the config that the file suggests, rule {rule!r} rejects {totals.by_rule[rule]:,} of "
            f"{totals.read:,} rows; for example\n  {rows}\nfix them{core.hint(rule)}"
        )
    rules = ", ".join(f"{rows:,} by {rule}" for rule, rows in totals.by_rule.items())
    fates = f"{totals.bad:,} are left out ({rules})" if rules else "none is left out"
    return [f"All {totals.read:,} rows of {days} were read with this config: {fates}."]


def write_config(table: Table, proposal: "Proposal", facts: list[str]) -> str:
    """Return a config as YAML, each section below what was assumed for it."""
    head = f"Guessed by `nightshift config guess` from {table.uris[-1]}. Comments say what was assumed, and why."
    lines = [*_comment([head, *facts])]
    for section, value in proposal.config.items():
        lines += [*_comment(proposal.notes.get(section, [])), strict_yaml.dump({section: value})]
    return "\n".join(lines) + "\n"


def _comment(sentences: list[str]) -> Iterator[str]:
    for sentence in sentences:
        yield from textwrap.wrap(printable(sentence), WIDTH, initial_indent="# ", subsequent_indent="#   ")
