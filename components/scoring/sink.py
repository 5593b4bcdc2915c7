"""Scores in a database: upserted by event and model version, a day in one transaction.

The table is the user's, who may grant no more than select, insert and update on it.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from nightshift import storage
from nightshift.config.scoring import Scoring
from nightshift.contracts.tables import Partition
from nightshift.data import databases
from nightshift.runtime.errors import UserError
from nightshift.runtime.step import log

if TYPE_CHECKING:
    import pandas as pd

KEYS = ("event_id", "model_version")
# a model has one of `flagged`, `predicted` and the two ends of an interval, or none; a config asks for reasons
COLUMNS = [*KEYS, "event_time", "score", "flagged", "predicted", "low", "high", "reasons"]
STAGED = "nightshift_scores"  # a temporary table, which no other connection sees


def write_days(sink: Scoring, days: Iterable[Partition]) -> None:
    """Write the scores of some days; what is there already stays untouched.

    Raises:
        UserError: when the database refuses, such as for a table or a column that is not there.
        UnavailableError: when it does not answer.
    """
    assert sink.database and sink.table, "there is no table to write to"
    stage = STAGES[databases.parse_uri(sink.database).scheme]
    with databases.open_database(sink.database) as database:
        for part in days:
            try:
                with database.transaction() as cursor:
                    _upsert(cursor, stage, sink.table, storage.read_batches(part.uri, COLUMNS))
            except UserError as error:
                raise UserError(
                    f"the scores of {part.date} are not in scoring.table {sink.table!r}: {error}; "
                    "docs/guides/monitoring.md shows the statement that creates it"
                ) from None
            log.info("scoring: %s rows of %s are in table %s", f"{part.rows:,}", part.date, sink.table)


def _upsert(
    cursor: Any, stage: "Callable[[Any, pd.DataFrame], None]", table: str, batches: "Iterable[pd.DataFrame]"
) -> None:
    cursor.execute(f"drop table if exists {STAGED}")
    columns: list[str] = []
    for batch in batches:
        stage(cursor, batch)
        columns = list(batch.columns)
    if columns:
        cursor.execute(_statement(table, columns))


def _statement(table: str, columns: list[str]) -> str:
    """Return the statement that inserts the staged rows, or updates those that differ.

    Both names are checked: the table's by the config, the columns' are ours.
    """
    changing = [column for column in columns if column not in KEYS]
    names, keys = ", ".join(columns), ", ".join(KEYS)
    update = ", ".join(f"{column} = excluded.{column}" for column in changing)
    differs = " or ".join(f"kept.{column} is distinct from excluded.{column}" for column in changing)
    return (
        f"insert into {table} as kept ({names}) select {names} from {STAGED} where true "  # noqa: S608
        f"on conflict ({keys}) do update set {update} where {differs}"
    )


def _ingest(cursor: Any, rows: "pd.DataFrame") -> None:
    """Stage rows by ADBC, which has a database's bulk load."""
    import pyarrow as pa

    cursor.adbc_ingest(STAGED, pa.Table.from_pandas(rows, preserve_index=False), "create_append", temporary=True)


def _insert(cursor: Any, rows: "pd.DataFrame") -> None:
    """Stage rows one by one, as SQLite's values: times are texts."""
    cursor.execute(f"create temporary table if not exists {STAGED} ({', '.join(rows.columns)})")
    values = [column.astype(str).tolist() if name == "event_time" else column.tolist() for name, column in rows.items()]
    marks = ", ".join("?" for _ in values)
    cursor.executemany(f"insert into {STAGED} values ({marks})", zip(*values, strict=True))  # noqa: S608


STAGES: "dict[str, Callable[[Any, pd.DataFrame], None]]" = {
    "postgresql": _ingest,
    "duckdb": _ingest,
    "sqlite": _insert,
}
