"""Names of datasets, by the naming rules of OpenLineage: a namespace for the store, a name within it."""

import re
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from nightshift import storage
from nightshift.config.source import Source
from nightshift.runtime.identity import RunIdentity, split_uri

SIMULATOR = "simulator"
POSTGRESQL, POSTGRES_PORT = ("postgresql", "postgres"), 5432
TABLES = re.compile(r"\b(?:from|join)\s+([\w.\"`]+)", re.IGNORECASE)  # a subquery's parenthesis is no name
SUBQUERIES = re.compile(r"\b(\w+)\s+as\s*\(", re.IGNORECASE)  # `with recent as (select ...)`
SCHEMA = "public"  # PostgreSQL's default


class DatasetName(NamedTuple):
    """A dataset's name.

    Attributes:
        namespace: the store, `s3://bucket` or `file`.
        name: in that store.
    """

    namespace: str
    name: str


def name_uri(uri: str) -> DatasetName:
    """Return the name of a file, folder or object by its URI; a login in the URI is left out."""
    parts = urlsplit(uri)
    if parts.scheme in ("", "file"):
        return DatasetName("file", parts.path if parts.scheme else uri)
    return DatasetName(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}", parts.path.strip("/") or "/")


def name_artifact(uri: str, run: RunIdentity) -> DatasetName:
    """Return the name of what a step has written for later steps of its run.

    The run's own folder is left out, as other integrations leave out a table's partition: a night adds a version.
    """
    root, task, name = split_uri(uri)
    folder = root.rpartition("/")[0]
    return name_uri(storage.join(folder, *filter(None, (run.use_case, run.pipeline)), task, name))


def name_table(partition: str) -> DatasetName:
    """Return the name of a table of the lake by the URI of one of its days, `<table>/date=<day>/<key>.parquet`."""
    return name_uri(partition.rpartition("/date=")[0] or partition)


def name_model(registry: str, use_case: str) -> DatasetName:
    """Return the name of a use case's model in the registry."""
    return name_uri(storage.join(registry, "models", use_case))


def name_sources(data: str, source: Source, use_case: str) -> list[DatasetName]:
    """Return the names of the tables, files or topics that a use case's raw rows come from.

    Args:
        data: `--data`, a URI or `simulator`.
        source: the layout of the config.
        use_case: the config's name.
    """
    if data == SIMULATOR:
        return [DatasetName("inmemory://", f"{SIMULATOR}.{use_case}")]
    if source.query:
        return [name_relation(data, table) for table in find_tables(source.query)]
    if source.topic:
        return [DatasetName(name_uri(data.partition(",")[0]).namespace, source.topic)]
    table = source.delta or source.iceberg or source.table
    return [name_uri(storage.join(data, table) if table else data)]


def find_tables(query: str) -> list[str]:
    """Return the tables that a query names after `from` and `join`; one empty name where there is none."""
    named = [name.replace('"', "").replace("`", "") for name in TABLES.findall(query)]
    subqueries = set(SUBQUERIES.findall(query))
    return [name for name in dict.fromkeys(named) if name not in subqueries] or [""]


def name_relation(uri: str, table: str) -> DatasetName:
    """Return the name of a table of a database: `postgres://host:port` and `database.schema.table`."""
    parts = urlsplit(uri)
    path = unquote(parts.path).strip("/").replace("/", ".")
    if parts.scheme in POSTGRESQL:
        namespace = f"postgres://{parts.hostname or 'localhost'}:{parts.port or POSTGRES_PORT}"
        return DatasetName(namespace, _join(path, table if "." in table else f"{SCHEMA}.{table}"))
    if parts.scheme in ("sqlite", "duckdb"):  # files of this machine
        return DatasetName("file", f"/{unquote(parts.path).lstrip('/')}/{table}".rstrip("/"))
    if parts.scheme == "bigquery":
        return DatasetName("bigquery", _join(parts.netloc, path, table))
    return DatasetName(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}", _join(path, table) or "/")


def _join(*names: str) -> str:
    return ".".join(filter(None, names))
