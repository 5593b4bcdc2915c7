"""The ledger's file: its schema and statements in SQLite, the checks of what it holds, and its report.

Each row has a checksum of its values, and the number of the last commit is also kept beside the file: a damaged page or
write-ahead log is noticed when the ledger is opened, and a damaged row at the latest when it is charged.
"""

import sqlite3
import zlib
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import quote

from nightshift.runtime.errors import UserError
from nightshift_llm.gateway.budgets import DAY

IN_MEMORY = ":memory:"
VERSION = 3  # version of the schema; the first had no money and no version, the second no checksums
SCHEMA = f"""
pragma user_version = {VERSION};
create table if not exists reservations (id integer primary key, key text, day integer, tokens integer,
    nanodollars integer, checksum integer) strict;
create table if not exists minutes (key text primary key, minute integer, requests integer, checksum integer) strict;
create table if not exists usage (key text, version text, day integer, requests integer, prompt_tokens integer,
    completion_tokens integer, estimated_tokens integer, nanodollars integer, checksum integer,
    primary key (key, version, day)) strict;
create table if not exists commits (number integer) strict;
"""
FIRST_COMMIT = "insert into commits select 0 where not exists (select * from commits)"
RESERVE = "insert into reservations values (?1, ?2, ?3, ?4, ?5, row_checksum(?1, ?2, ?3, ?4, ?5))"
COUNT = "insert or replace into minutes values (?1, ?2, ?3, row_checksum(?1, ?2, ?3))"
RELEASE = "delete from reservations where id = ?"
CHARGE = """
insert into usage values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, row_checksum(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8))
on conflict do update set requests = requests + excluded.requests,
    prompt_tokens = prompt_tokens + excluded.prompt_tokens,
    completion_tokens = completion_tokens + excluded.completion_tokens,
    estimated_tokens = estimated_tokens + excluded.estimated_tokens, nanodollars = nanodollars + excluded.nanodollars,
    checksum = row_checksum(key, version, day, requests + excluded.requests, prompt_tokens + excluded.prompt_tokens,
        completion_tokens + excluded.completion_tokens, estimated_tokens + excluded.estimated_tokens,
        nanodollars + excluded.nanodollars)
where checksum = row_checksum(key, version, day, requests, prompt_tokens, completion_tokens, estimated_tokens,
    nanodollars)
"""
DAMAGED = """
select count(*) from reservations where checksum is not row_checksum(id, key, day, tokens, nanodollars)
union all select count(*) from minutes where checksum is not row_checksum(key, minute, requests)
union all select count(*) from usage where checksum is not row_checksum(key, version, day, requests, prompt_tokens,
    completion_tokens, estimated_tokens, nanodollars)
"""
ADVANCE = "update commits set number = number + 1 returning number"
RECOVER = "select key, day, count(*), sum(tokens), sum(nanodollars) from reservations group by key, day"
SPENT = """
select coalesce(sum(prompt_tokens + completion_tokens + estimated_tokens), 0), coalesce(sum(nanodollars), 0) from usage
where key = ? and day = ?
"""
REPORT = """
select key, version, day, requests, prompt_tokens, completion_tokens, estimated_tokens, nanodollars from usage
order by day, key, version
"""


@dataclass(frozen=True)
class LedgerRow:
    """The usage of a version by a key on a day.

    Attributes:
        key: name of the key.
        version: model version.
        day: UTC day, YYYY-MM-DD.
        requests: requests, including interrupted ones.
        prompt_tokens: prompt tokens, as the engine counts them.
        completion_tokens: completion tokens, as the engine counts them.
        estimated_tokens: reservations charged in full, of requests that ended without a count.
        nanodollars: cost of all of them in 1e-9 dollars.
    """

    key: str
    version: str
    day: str
    requests: int
    prompt_tokens: int
    completion_tokens: int
    estimated_tokens: int
    nanodollars: int


def read_report(path: str) -> list[LedgerRow]:
    """Return the usage in a ledger's file, also while a gateway uses it.

    Raises:
        UserError: when it is missing, not a ledger, of another version, or damaged.
    """
    try:
        with closing(connect(f"file:{quote(path)}?mode=ro")) as database:
            _check_version(path, database)
            _check_integrity(path, database)
            return fetch_report(database)
    except sqlite3.Error as error:
        raise UserError(f"ledger {path!r}: {error}; give the file of --ledger") from None


def open_file(path: str) -> sqlite3.Connection:
    """Open a ledger's file, and create what a new one lacks.

    Raises:
        UserError: when it is a ledger of another version, or damaged.
        sqlite3.Error: when it cannot be opened, or is not a ledger.
    """
    database = connect(path)
    _check_version(path, database)
    database.executescript(f"pragma journal_mode = wal; pragma synchronous = full; {SCHEMA}")
    database.execute(FIRST_COMMIT)
    _check_integrity(path, database)
    return database


def connect(path: str) -> sqlite3.Connection:
    """Return a connection to a ledger's file, with the function of its checksums."""
    database = sqlite3.connect(path, check_same_thread=False, isolation_level=None, uri=path.startswith("file:"))
    database.create_function("row_checksum", -1, _compute_checksum, deterministic=True)
    return database


def _compute_checksum(*values: str | int | None) -> int:
    return zlib.crc32(repr(values).encode())


def _check_integrity(path: str, database: sqlite3.Connection) -> None:
    """Refuse a damaged ledger.

    Raises:
        UserError: with what is damaged.
    """
    damage = [text for (text,) in database.execute("pragma integrity_check(3)") if text != "ok"]
    if not damage and (damaged := sum(number for (number,) in database.execute(DAMAGED))):
        damage = [f"{damaged} rows do not match their checksums"]
    if damage:
        raise UserError(f"ledger {path!r} is damaged: {'; '.join(damage)}; see docs/runbooks/restore.md")


def _check_version(path: str, database: sqlite3.Connection) -> None:
    ((version,),) = database.execute("pragma user_version")
    columns = [name for (name,) in database.execute("select name from pragma_table_info('usage')")]
    version = version or (VERSION if "checksum" in columns or not columns else 1)
    if version != VERSION:
        raise UserError(
            f"ledger {path!r} is of version {version}, and this gateway's are of version {VERSION}; give the name of a"
            " new file, and read this one with the gateway that wrote it"
        )


def fetch_report(database: sqlite3.Connection) -> list[LedgerRow]:
    """Return the usage of keys by version and day, the latest day last."""
    entries = database.execute(REPORT).fetchall()
    return [LedgerRow(key, version, _format_day(day), *counts) for key, version, day, *counts in entries]


def _format_day(day: int) -> str:
    return datetime.fromtimestamp(day * DAY, UTC).date().isoformat()
