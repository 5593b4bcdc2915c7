"""Databases by URI: which driver opens one, how values are bound, and what its errors mean.

A URI never holds a password: the variable NIGHTSHIFT_DATABASE_PASSWORD does, or a file or login that the driver finds
by itself, such as libpq's `~/.pgpass`.
"""

import os
import re
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from importlib import import_module
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from nightshift.data.outages import is_outage
from nightshift.runtime.errors import UnavailableError, UserError, nearest

if TYPE_CHECKING:
    import pandas as pd

PASSWORD = "NIGHTSHIFT_DATABASE_PASSWORD"  # noqa: S105 the variable's name
SECRET = re.compile("(password|passwd|pwd|secret|token|private_key)$", re.IGNORECASE)  # a parameter of a URI
NAME = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True)
class Driver:
    """How databases of one kind are reached.

    Attributes:
        package: what pip installs.
        connect: opens a connection as of PEP 249, to read only or to write too.
        marker: stands for a bound value in a statement.
        fetch: returns the rows of a cursor that has executed a query.
        session: statement for a new connection, so that times without a zone are UTC.
        dates_as_text: whether it binds dates as text only, `2024-03-10`.
        quote: around names.
    """

    package: str
    connect: Callable[[SplitResult, bool], Any]
    marker: str
    fetch: "Callable[[Any], pd.DataFrame]"
    session: str = ""
    dates_as_text: bool = False
    quote: str = '"'


class Database:
    """A connection to a database.

    Attributes:
        uri: its URI, without a password.
        connection: the driver's, as of PEP 249; closed with the block, or with the last reference to this object.
    """

    def __init__(self, uri: str, driver: Driver, connection: Any) -> None:
        self.uri, self.connection = uri, connection
        self._driver = driver
        self._close = weakref.finalize(self, connection.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def read(self, template: str, values: Mapping[str, object]) -> "pd.DataFrame":
        """Return the rows of a query.

        Args:
            template: the query, with `{name}` where a value is bound.
            values: name -> value.

        Raises:
            UserError: when the database refuses the query, or the query has a column of a type that has to be cast.
            UnavailableError: when the database does not answer.
        """
        with _explain(self.uri), self.execute(template, values) as cursor:
            return self._driver.fetch(cursor)

    @contextmanager
    def execute(self, template: str, values: Mapping[str, object]) -> Iterator[Any]:
        """Execute a statement, as for `read`; yields the cursor."""
        if self._driver.dates_as_text:
            values = {name: str(value) if isinstance(value, date) else value for name, value in values.items()}
        statement, parameters = bind(template, values, self._driver.marker)
        cursor = self.connection.cursor()
        try:
            with _explain(self.uri):
                cursor.execute(statement, parameters)
            yield cursor
        finally:
            cursor.close()

    @contextmanager
    def transaction(self) -> Iterator[Any]:
        """Yield a cursor, of whose statements all take effect or none; errors as for `read`."""
        cursor = self.connection.cursor()
        try:
            with _explain(self.uri):
                yield cursor
                self.connection.commit()
        except BaseException:
            self.connection.rollback()
            raise
        finally:
            cursor.close()


def is_database(uri: str) -> bool:
    """Return whether a URI names a database of a known kind."""
    return uri.partition("://")[0] in DRIVERS and "://" in uri


def quote_name(uri: str, name: str) -> str:
    """Return the name of a column as statements for a database have it."""
    quote = DRIVERS[parse_uri(uri).scheme].quote
    return f"{quote}{name.replace(quote, 2 * quote)}{quote}"


def local_folder(uri: str) -> str | None:
    """Return the folder of a database that is a file of this machine, None for any other URI."""
    scheme, _, path = uri.partition("://")
    return unquote(path).rpartition("/")[0] if scheme in ("sqlite", "duckdb") else None


def parse_uri(uri: str) -> SplitResult:
    """Return the parts of a database's URI.

    Raises:
        UserError: when it is none, or holds a password, which files and logs would show.
    """
    scheme = uri.partition("://")[0]
    if not is_database(uri):
        raise UserError(
            f"{scheme!r} is not a supported database scheme; use "
            f"{', '.join(f'{scheme}://' for scheme in DRIVERS)}{nearest(scheme, DRIVERS)}"
        )
    try:
        parts = urlsplit(uri)
    except ValueError as error:
        raise UserError(f"{scheme}://... is not a URI ({error}); write {scheme}://user@host/database") from None
    secrets = [name for name, _ in parse_qsl(parts.query) if SECRET.search(name)]
    if parts.password is not None or secrets:
        host = parts.netloc.rpartition("@")[2]
        raise UserError(
            f"the URI {scheme}://{host}{parts.path} holds a password or token, which files and logs would show; "
            f"leave it out, and set {PASSWORD} in the environment"
        )
    return parts


def open_database(uri: str, read_only: bool = False) -> Database:
    """Open a database.

    Args:
        uri: such as `postgresql://user@host/database`, `sqlite:///folder/file.db`.
        read_only: whether statements that write are refused, where the driver can do that.

    Raises:
        UserError: when the scheme is unknown, its driver is not installed, the URI holds a password, or the database
            refuses.
        UnavailableError: when the database does not answer.
    """
    parts = parse_uri(uri)
    driver = DRIVERS[parts.scheme]
    with _explain(uri):
        try:
            connection = driver.connect(parts, read_only)
        except ModuleNotFoundError:
            raise UserError(f"{uri} needs a driver; install it: pip install {driver.package}") from None
        if driver.session:
            with connection.cursor() as cursor:
                cursor.execute(driver.session)
            connection.commit()
    return Database(uri, driver, connection)


def bind(
    template: str, values: Mapping[str, object], marker: str
) -> tuple[str, Sequence[object] | Mapping[str, object]]:
    """Return a statement with a marker for each value, and what the driver takes as its parameters.

    Args:
        template: the statement, with `{name}` where a value is bound; other braces are left alone.
        values: name -> value.
        marker: `?`, `$` for `$1`, `$2` and so on, or `%` for `%(name)s`.
    """
    if marker == "%":  # any other % would be a marker too
        return _replace_names(template.replace("%", "%%"), {name: f"%({name})s" for name in values}.get), values
    parameters: list[object] = []

    def number(name: str) -> str | None:
        if name not in values:
            return None
        parameters.append(values[name])
        return f"${len(parameters)}" if marker == "$" else marker

    return _replace_names(template, number), parameters


def _replace_names(template: str, replace: Callable[[str], str | None]) -> str:
    return NAME.sub(lambda match: replace(match[1]) or match[0], template)


@contextmanager
def _explain(uri: str) -> Iterator[None]:
    """Turn a driver's error into one for the user, without the password."""
    try:
        yield
    except (UserError, UnavailableError):
        raise
    except Exception as error:
        reason = _hide_password(" ".join(str(error).split()))[:500]
        if is_outage(error):
            raise UnavailableError(f"{uri}: {reason}; check the database, then run the same command again") from None
        raise UserError(f"{uri}: {reason}; check the query, the names in it, the URI and the credentials") from None


def _hide_password(text: str) -> str:
    password = os.environ.get(PASSWORD)
    for secret in (password, quote(password, safe="")) if password else ():
        text = text.replace(secret, "***")
    return text


def _open_postgresql(parts: SplitResult, read_only: bool) -> Any:
    module = import_module("adbc_driver_postgresql.dbapi")
    user, password = parts.username or "", os.environ.get(PASSWORD)
    login = f"{user}:{quote(password, safe='')}@" if password else f"{user}@" if user else ""
    host = parts.netloc.rpartition("@")[2]
    if parts.scheme == "redshift":  # which speaks PostgreSQL's protocol and has no default for writing
        host, read_only = host if parts.port else f"{host}:5439", False
    # not by geturl, which leaves out the slashes before an empty host
    uri = f"postgresql://{login}{host}{parts.path}?{parts.query}"
    connection = module.connect(uri, autocommit=read_only)
    if read_only:
        with connection.cursor() as cursor:
            cursor.execute("set default_transaction_read_only = on")
    return connection


def _open_duckdb(parts: SplitResult, read_only: bool) -> Any:
    options = {"path": unquote(parts.path), "access_mode": "READ_ONLY" if read_only else "AUTOMATIC"}
    driver = import_module("adbc_driver_duckdb").driver_path()
    dbapi = import_module("adbc_driver_manager.dbapi")
    return dbapi.connect(driver=driver, entrypoint="duckdb_adbc_init", db_kwargs=options, autocommit=read_only)


def _open_sqlite(parts: SplitResult, read_only: bool) -> Any:
    sqlite = import_module("sqlite3")
    return sqlite.connect(f"file:{quote(unquote(parts.path))}?mode={'ro' if read_only else 'rwc'}", uri=True)


def _open_snowflake(parts: SplitResult, read_only: bool) -> Any:  # noqa: ARG001 its role says what it may write
    database, _, schema = parts.path.strip("/").partition("/")
    return import_module("snowflake.connector").connect(
        account=parts.hostname,
        user=unquote(parts.username or ""),
        database=database,
        schema=schema or None,
        password=os.environ.get(PASSWORD),
        paramstyle="qmark",
        session_parameters={"TIMEZONE": "UTC"},
        **dict(parse_qsl(parts.query)),
    )


def _open_bigquery(parts: SplitResult, read_only: bool) -> Any:  # noqa: ARG001 its role says what it may write
    bigquery = import_module("google.cloud.bigquery")
    dataset = f"{parts.hostname}.{parts.path.strip('/')}"
    query = bigquery.QueryJobConfig(default_dataset=dataset)
    client = bigquery.Client(project=parts.hostname, default_query_job_config=query)
    return import_module("google.cloud.bigquery.dbapi").connect(client)


def _open_athena(parts: SplitResult, read_only: bool) -> Any:  # noqa: ARG001 its role says what it may write
    return import_module("pyathena").connect(
        region_name=parts.hostname, schema_name=parts.path.strip("/"), **dict(parse_qsl(parts.query))
    )


def _fetch_arrow(cursor: Any) -> "pd.DataFrame":
    from nightshift.data.arrow import to_frame

    return to_frame(cursor.fetch_arrow_table())


def _fetch_snowflake(cursor: Any) -> "pd.DataFrame":
    from nightshift.data.arrow import to_frame

    return to_frame(cursor.fetch_arrow_all(force_return_table=True))


def _fetch_rows(cursor: Any) -> "pd.DataFrame":
    """Return rows as the objects that the driver makes of values, each as exact as it is."""
    import pandas as pd

    names = [column[0] for column in cursor.description]
    return pd.DataFrame(cursor.fetchall(), columns=names, dtype=object)


POSTGRESQL = Driver("adbc-driver-postgresql", _open_postgresql, "$", _fetch_arrow, "set timezone to 'UTC'")
DRIVERS = {
    "postgresql": POSTGRESQL,
    "redshift": POSTGRESQL,
    "sqlite": Driver("sqlite3", _open_sqlite, "?", _fetch_rows, dates_as_text=True),
    "duckdb": Driver("duckdb adbc-driver-manager", _open_duckdb, "?", _fetch_arrow, "set timezone = 'UTC'"),
    "snowflake": Driver("snowflake-connector-python", _open_snowflake, "?", _fetch_snowflake),
    "bigquery": Driver("google-cloud-bigquery", _open_bigquery, "%", _fetch_rows, quote="`"),
    "athena": Driver("pyathena", _open_athena, "%", _fetch_rows),
}
