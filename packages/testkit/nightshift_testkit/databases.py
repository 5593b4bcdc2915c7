"""Real databases for a test, each with a table `events` that a test fills."""

import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from nightshift.data.databases import Database, open_database
from nightshift.data.values import canonical, format_value
from nightshift_testkit import postgresql
from nightshift_testkit.processes import started, wait_until
from nightshift_testkit.servers import free_port


@dataclass(frozen=True)
class FilledDatabase:
    """A database that a test writes to.

    Attributes:
        uri: for `--data`.
        fill: replaces the table `events`.
    """

    uri: str
    fill: Callable[[pa.Table], None]

    def execute(self, statement: str) -> None:
        """Change what it holds."""
        with open_database(self.uri) as database, database.execute(statement, {}):
            database.connection.commit()


@contextmanager
def serve(kind: str, folder: Path) -> Iterator[FilledDatabase]:
    """Start a database with a folder of its own; Snowflake's password has to be in the environment by then."""
    match kind:
        case "postgresql":
            with postgresql.serve("shop") as address:
                yield _database(f"postgresql://{address}/shop", _ingest)
        case "snowflake":
            with _snowflake(folder) as uri:
                yield _database(uri, _insert_literals)
        case "duckdb":
            yield _database(f"duckdb://{folder}/shop.duckdb", _ingest)
        case "sqlite":
            yield _database(f"sqlite://{folder}/shop.db", _insert_rows)


def _database(uri: str, write: Callable[[Database, pa.Table], None]) -> FilledDatabase:
    def fill(table: pa.Table) -> None:
        with open_database(uri) as database:
            write(database, table)
            database.connection.commit()

    return FilledDatabase(uri, fill)


@contextmanager
def _snowflake(folder: Path) -> Iterator[str]:
    """Snowflake's dialect and protocol over a DuckDB, and its own connector before it."""
    port = free_port()
    command = [sys.executable, "-m", "fakesnow", "-s", "-p", str(port)]
    with (folder / "log").open("w") as log, started(command, stdout=log, stderr=log):
        wait_until(lambda: "Uvicorn running" in (folder / "log").read_text(), "fakesnow answers")
        uri = f"snowflake://fake@fakesnow/shop/public?host=127.0.0.1&port={port}&protocol=http"
        with open_database(uri) as database, closing(database.connection.cursor()) as cursor:
            cursor.execute("create database if not exists shop")
            cursor.execute("create schema if not exists shop.public")
        yield uri


def _ingest(database: Database, table: pa.Table) -> None:
    with database.connection.cursor() as cursor:
        cursor.adbc_ingest("events", table, mode="replace")


def _insert_rows(database: Database, table: pa.Table) -> None:
    names = ", ".join(f'"{name}"' for name in table.column_names)
    markers = ", ".join("?" for _ in table.column_names)
    database.connection.execute("drop table if exists events")
    database.connection.execute(f"create table events ({names})")
    rows = [[_as_sqlite(value) for value in row.values()] for row in table.to_pylist()]
    database.connection.executemany(f"insert into events values ({markers})", rows)


def _as_sqlite(value: Any) -> Any:
    """Return a value as one of SQLite's four types; times in UTC, so that they compare as texts do."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat() if value.tzinfo else format_value(value)
    if isinstance(value, Decimal):
        return canonical(value)
    return str(value) if isinstance(value, date) else value


def _insert_literals(database: Database, table: pa.Table) -> None:
    cursor = database.connection.cursor()
    columns = ", ".join(f"{field.name} {_snowflake_type(field.type)}" for field in table.schema)
    cursor.execute(f"create or replace table events ({columns})")
    rows = [f"({', '.join(map(_literal, row.values()))})" for row in table.to_pylist()]
    for first in range(0, len(rows), 500):
        cursor.execute(f"insert into events values {', '.join(rows[first : first + 500])}")


def _snowflake_type(column: pa.DataType) -> str:
    if pa.types.is_timestamp(column):
        return "timestamp_tz" if column.tz else "timestamp_ntz"
    if pa.types.is_decimal(column):
        return f"number({column.precision}, {column.scale})"
    names = {"int64": "number(38, 0)", "int8": "number(3, 0)", "double": "float", "bool": "boolean"}
    return names.get(str(column), "date" if pa.types.is_date(column) else "varchar")


def _literal(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, datetime):
        text = value.astimezone(UTC).isoformat() if value.tzinfo else value.isoformat(" ")
        return f"'{text}'"
    if isinstance(value, str | date):
        text = str(value).replace("\\", "\\\\").replace("'", "''")
        return f"'{text}'"
    return repr(value) if isinstance(value, float) else str(value)
