"""Tables as a stranger has them: which files make one up, how they are written, and whether a config reads all rows."""

import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd

from components.ingestion import core, formats, sources
from components.ingestion.records import MALFORMED, UNNAMED
from components.ingestion.section import late_labels
from components.ingestion.sources.coverage import require_days
from components.ingestion.tally import Totals
from nightshift import storage
from nightshift.config import Config
from nightshift.config.source import FileFormat
from nightshift.data import databases
from nightshift.data.guessing import dialect
from nightshift.data.splits import Days, plan
from nightshift.runtime.errors import UserError

# how a file's name spells a day -> what that looks like
DATES = {
    "{date}": "[0-9]{4}-[0-9]{2}-[0-9]{2}",
    "{date:%Y%m%d}": "(?:19|20)[0-9]{2}[01][0-9][0-3][0-9]",
    "{date:%Y_%m_%d}": "[0-9]{4}_[0-9]{2}_[0-9]{2}",
}
VERSION_NOTE = (
    "Each run reads the rows of its days to see whether they have changed; with source.version, such as "
    "'select count(*), max(updated_at) from ...', only days that have."
)
MOST_PREAMBLE = 20  # rows of a sheet before its header


@dataclass(frozen=True)
class SourceFiles:
    """The files that make up a table.

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
        stem = re.sub(r"\{date[^}]*\}", "", next(iter(self.layout.values())).partition(".")[0])
        return _make_name(stem, self.folder)

    def describe(self, event_time: str) -> dict[str, str]:  # noqa: ARG002  # a file's name says which days it holds
        """Return the layout in the config's `source`; `event_time` is the column of times."""
        return self.layout

    def read(self) -> tuple[dict[str, Any], list[str], pd.DataFrame]:
        """Return how the files are written, why, and all rows that are whole; the newest file says it for all.

        Raises:
            UserError: naming the file that cannot be read.
        """
        contents = {uri: storage.read_bytes(uri) for uri in self.uris}
        uri = self.uris[-1]
        try:
            settings, reasons = _find_format(uri, contents[uri])
            frames = []
            for uri, data in contents.items():
                rows = formats.read_rows(uri, data, FileFormat(**settings))
                rows = rows.loc[:, ~rows.columns.duplicated()]
                frames.append(rows[rows[MALFORMED].isna()] if MALFORMED in rows else rows)
        except UserError as error:
            raise UserError(f"{uri} {error}") from None
        frame = formats.join(frames).drop(columns=MALFORMED, errors="ignore").reset_index(drop=True)
        if frame.empty:
            raise UserError(f"{uri} has no rows")
        return settings, reasons, frame


@dataclass(frozen=True)
class QueryResult:
    """The rows that a query of a database returns.

    Attributes:
        folder: URI of the database, to give as `--data`.
        query: returns the rows of all days.
    """

    folder: str
    query: str

    @property
    def uris(self) -> list[str]:
        """What is read."""
        return [self.folder]

    @property
    def name(self) -> str:
        """A use case's name: the first table's."""
        tables = re.search(r"\bfrom\s+[\"`]?(?:\w+[\"`]?\.[\"`]?)*(\w+)", self.query, re.IGNORECASE)
        return _make_name(tables[1] if tables else "", self.folder)

    def describe(self, event_time: str) -> dict[str, str]:
        """Return the layout: the query, limited to the times of a day."""
        time = databases.quote_name(self.folder, event_time)
        limits = f"{time} >= {{date}} and {time} < {{next_date}}"
        end = "\n" if "--" in self.query else ""  # ends a comment
        return {"query": f"select * from ({self.query}{end}) as events where {limits}"}  # noqa: S608 as it is given

    def read(self) -> tuple[dict[str, Any], list[str], pd.DataFrame]:
        """Return no format, a note, and all rows.

        Raises:
            UserError: when the database refuses the query, or it has no rows.
            UnavailableError: when the database does not answer.
        """
        with databases.open_database(self.folder, read_only=True) as database:
            frame = database.read(self.query, {})
        if frame.empty:
            raise UserError(f"the query returns no row from {self.folder}")
        return {}, [VERSION_NOTE], frame.loc[:, ~frame.columns.duplicated()]


def _make_name(stem: str, uri: str) -> str:
    names = [re.sub("[^a-z0-9]+", "-", text.lower()).strip("-") for text in (stem, Path(uri).name)]
    name = next(filter(None, names), "")
    return name if re.match("[a-z]", name) else f"events-{name}".rstrip("-")


def find_table(uri: str) -> SourceFiles:
    """Return the table that a URI names: a file, or those of a folder.

    Raises:
        UserError: when it names nothing, or a folder of several tables.
    """
    folder, name = uri.rstrip("/").rpartition("/")[::2]
    folder = folder or ("/" if uri.startswith("/") else ".")
    if formats.find_kind(name) or name.endswith(".zip"):
        template = _make_template(name)
        days = [other for other in storage.names(folder) if _make_template(other) == template]
        return _by_day(folder, template, days) if len(days) > 1 else SourceFiles(folder, {"table": name}, [uri])
    names = [other for other in storage.names(uri) if formats.find_kind(other)]
    templates = sorted(set(map(_make_template, names)))
    if len(templates) != 1:
        listed = ", ".join(templates)[:300] or "no file"
        raise UserError(f"{uri} holds {listed}; give one file whose name ends in one of {', '.join(formats.FORMATS)}")
    if len(names) > 1:
        return _by_day(uri, templates[0], names)
    return SourceFiles(uri, {"table": names[0]}, [storage.join(uri, names[0])])


def _make_template(name: str) -> str:
    """Return a file's name with the day in it replaced by its spelling; without a day the name as it is."""
    for spelling, digits in DATES.items():
        template, days = re.subn(f"(?<![0-9]){digits}(?![0-9])", spelling, name)
        if days:
            return template
    return name


def _by_day(folder: str, template: str, names: list[str]) -> SourceFiles:
    return SourceFiles(folder, {"files": template}, [storage.join(folder, name) for name in sorted(names)])


def _find_format(uri: str, data: bytes) -> tuple[dict[str, Any], list[str]]:
    """Return what `source.format` says of a file as a whole, and why."""
    with formats.explain_faults(uri):
        name, data = formats.unpack(uri, data)
    match formats.find_kind(name):
        case "CSV":
            guessed = dialect.guess(data)
            return guessed.settings, guessed.reasons
        case "Excel":
            return _find_sheet_header(name, data)
        case "tar":
            raise UserError(
                "holds images or texts; copy pipelines/configs/digits.yaml or topics.yaml, see docs/guides/classes.md"
            )
    return {}, []


def _find_sheet_header(name: str, data: bytes) -> tuple[dict[str, Any], list[str]]:
    """Return how many rows of a sheet stand before the first that names each column."""
    for rows in range(MOST_PREAMBLE):
        names = formats.read_rows(name, data, FileFormat(preamble_lines=rows)).columns
        if not names.str.startswith(UNNAMED).any():
            return ({"preamble_lines": rows}, [f"The header is row {rows + 1}."]) if rows else ({}, [])
    raise UserError(f"has no row among its first {MOST_PREAMBLE} that names each column; write the header first")


def verify(table: SourceFiles | QueryResult, config: Config, days: Days, last: date) -> list[str]:
    """Ingest every row with a config, writing nothing, and say what became of them.

    Args:
        table: the rows.
        config: the use case.
        days: of all rows.
        last: the logical date of a first run.

    Raises:
        UserError: when a run for that date would stop: days are missing, or too many rows are quarantined.
    """
    needed = plan(config, last)
    source = sources.connect(table.folder, config, needed.labels_due)
    require_days(source, config, needed.events)
    frames = {day: source.read(day).load() for day in days if source.has(day)}
    splits = core.split_batch(frames, config, needed.labels_due) if source.has_fixed_dtypes else None
    splits = splits or {day: core.split(frame, config, day, day <= needed.labels_due) for day, frame in frames.items()}
    _check_shares(splits.values(), config)
    _check_shares([splits[day] for day in needed.events if day in splits], config)
    totals = _sum_up(splits.values())
    require_whole_days(totals, config)
    rules = ", ".join(f"{rows:,} by {rule}" for rule, rows in totals.by_rule.items())
    fates = f"all but {totals.bad:,} ({rules})" if rules else "all"
    bad = [split.bad for split in splits.values()]
    rows = [f"Left out by {rule}, for example: {core.examples(bad, config, rule)[0]}." for rule in totals.by_rule]
    due = {day: split.unlabeled_rows for day, split in sorted(splits.items()) if day <= needed.labels_due}
    late = late_labels({str(day): unlabeled for day, unlabeled in due.items() if unlabeled})
    return [f"Of {totals.read:,} rows of {days} a run with this config takes {fates}.", *rows, *late]


def require_whole_days(totals: Totals, config: Config) -> None:
    """Check that days without rows are not those of malformed records.

    Raises:
        UserError: when they may be.
    """
    if (lost := totals.by_rule.get(MALFORMED)) and config.source.empty_days != "refused":
        raise UserError(
            f"{lost:,} lines are no records of the table, and some days have no rows, which may be theirs: such lines "
            "have more or fewer fields than the header, or stand between stray quotes; correct them, or leave them out "
            f"of the file{core.config_advice(MALFORMED, config)}"
        )


def _sum_up(splits: Iterable[core.SplitRows]) -> Totals:
    totals = Totals(Counter(), {})
    for split in splits:
        totals.add(split.labels, split.quarantined_labels)
    return totals


def _check_shares(splits: Collection[core.SplitRows], config: Config) -> None:
    """Check that a run over some days would not stop, see `Totals.find_excess`."""
    if excess := _sum_up(splits).find_excess(config.quarantine):
        rows = "\n  ".join(core.examples([split.bad for split in splits], config, excess.rule, excess.label))
        raise UserError(
            f"with the config that the file suggests, {excess.sentence}; for example\n  {rows}\n"
            f"fix them{core.config_advice(excess.rule, config)}"
        )
