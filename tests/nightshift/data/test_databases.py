"""Databases by URI: what is refused, what may pass, and that a password is shown nowhere."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import date
from decimal import Decimal

import adbc_driver_manager
import pytest
from adbc_driver_manager import AdbcStatusCode
from botocore.exceptions import ClientError, EndpointConnectionError
from google.api_core import exceptions
from google.cloud.bigquery import dbapi as bigquery
from snowflake.connector import errors as snowflake

from nightshift.data import databases
from nightshift.data.databases import bind, local_folder, open_database
from nightshift.data.outages import is_outage
from nightshift.runtime.errors import UnavailableError, UserError
from nightshift_testkit import postgresql
from nightshift_testkit.processes import started

DAYS = {"date": date(2024, 3, 10), "next_date": date(2024, 3, 11)}


@pytest.fixture(scope="module")
def address():
    with postgresql.serve("shop") as running:
        yield running


@pytest.mark.parametrize(("marker", "statement"), [("?", "a ? b ? c ? {x} 5%"), ("$", "a $1 b $2 c $3 {x} 5%")])
def test_every_name_becomes_a_marker_of_its_own(marker, statement):
    first, second = DAYS.values()
    assert bind("a {date} b {next_date} c {date} {x} 5%", DAYS, marker) == (statement, [first, second, first])


def test_a_driver_that_takes_names_gets_each_value_once():
    statement = "a %(date)s b %(next_date)s c %(date)s {x} 5%%"
    assert bind("a {date} b {next_date} c {date} {x} 5%", DAYS, "%") == (statement, DAYS)


@pytest.mark.slow
def test_a_value_is_never_part_of_the_statement(address):
    injected = "'; drop table events; --"
    with open_database(f"postgresql://{address}/shop") as database:
        assert database.read("select {date}::text as value", {"date": injected})["value"].tolist() == [injected]


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql://shop:geheim@db/shop",
        "postgresql://db/shop?user=shop&password=geheim",
        "postgresql://db/shop?sslpassword=geheim",
        "snowflake://shop@account/shop?private_key_file_pwd=geheim",
        "snowflake://shop@account/shop?token=geheim",
    ],
)
def test_a_uri_with_a_password_is_refused_without_showing_it(uri):
    with pytest.raises(UserError, match=r"set NIGHTSHIFT_DATABASE_PASSWORD in the environment") as error:
        open_database(uri)
    assert "geheim" not in str(error.value)


@pytest.mark.slow
def test_the_password_of_the_environment_logs_in_and_no_error_shows_it(address, monkeypatch):
    with open_database(f"postgresql://{address}/shop") as database:
        _require_password(database)
    uri = f"postgresql://reader@{address.split('@')[1]}/shop"
    monkeypatch.setenv(databases.PASSWORD, "s:e/c ret")
    with open_database(uri, read_only=True) as database:
        assert database.read("select current_user::text as name", {})["name"].tolist() == ["reader"]
        with pytest.raises(UserError) as error:
            database.read("select 's:e/c ret'::integer", {})
    assert "s:e/c ret" not in str(error.value)
    monkeypatch.setenv(databases.PASSWORD, "wrong")
    with pytest.raises(UserError, match="password authentication failed"):
        open_database(uri)


def _require_password(database: databases.Database) -> None:
    """Have the server ask one role for its password, and trust all others."""
    lines = "host all reader 127.0.0.1/32 scram-sha-256", "host all all 127.0.0.1/32 trust"
    file = database.read("select current_setting('hba_file') as file", {})["file"][0]
    cursor = database.connection.cursor()
    cursor.execute("create role reader login password 's:e/c ret'")
    cursor.execute(f"copy (values ('{lines[0]}'), ('{lines[1]}')) to '{file}'")
    database.connection.commit()
    cursor.execute("do $$ begin perform pg_reload_conf(); end $$")
    cursor.close()


@pytest.mark.slow
def test_a_uri_may_name_the_server_in_its_parameters(address):
    user, _, server = address.partition("@")
    host, _, port = server.partition(":")
    with open_database(f"postgresql:///shop?host={host}&port={port}&user={user}") as database:
        assert database.read("select 1 as one", {})["one"].tolist() == [1]


@pytest.mark.slow
def test_times_are_utc_whatever_the_zone_of_the_server(address):
    uri, statement = f"postgresql://{address}/shop", "alter database shop set timezone to 'Asia/Kathmandu'"
    with open_database(uri) as database, database.execute(statement, {}):
        database.connection.commit()
    with open_database(uri, read_only=True) as database:
        midnight = database.read("select {date}::timestamptz as midnight", DAYS)["midnight"]
    assert str(midnight[0]) == "2024-03-10 00:00:00+00:00"


@pytest.mark.parametrize("uri", ["postgresql://shop@127.0.0.1:1/shop", "postgresql://shop@nowhere.invalid/shop"])
def test_a_server_that_is_down_may_be_tried_again(uri):
    with pytest.raises(UnavailableError, match="check the database, then run the same command again"):
        open_database(uri)


@pytest.mark.slow
def test_a_connection_that_breaks_may_be_tried_again(address):
    with open_database(f"postgresql://{address}/shop") as database, pytest.raises(UnavailableError, match="terminat"):
        database.read("select pg_terminate_backend(pg_backend_pid())", {})


HOLDER = "import duckdb, sys; held = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"


@pytest.mark.slow
def test_a_file_that_another_process_writes_may_be_tried_again(tmp_path):
    command = [sys.executable, "-c", HOLDER, f"{tmp_path}/shop.duckdb"]
    with started(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline()
        with pytest.raises(UnavailableError, match="lock on file"):
            open_database(f"duckdb://{tmp_path}/shop.duckdb", read_only=True)
        holder.communicate()


@pytest.mark.slow
def test_a_mistake_of_the_user_is_not_tried_again(address, tmp_path):
    for uri in (f"postgresql://{address}/nope", f"sqlite://{tmp_path}/nope.db", f"duckdb://{tmp_path}/nope.duckdb"):
        with pytest.raises(UserError, match="check the query, the names in it, the URI and the credentials"):
            open_database(uri, read_only=True)


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("postgres://db/shop", "'postgres' is not a supported database scheme; use .* did you mean 'postgresql'"),
        ("postgresql://[db/shop", "is not a URI .* write postgresql://user@host/database"),
        ("athena://eu-west-1/shop", "needs a driver; install it: pip install pyathena"),
    ],
)
def test_a_uri_that_cannot_work_is_refused_with_what_to_do(uri, message):
    with pytest.raises(UserError, match=message):
        open_database(uri)


@pytest.mark.slow
def test_numbers_of_any_precision_are_decimals_and_uuids_text(address):
    uuid = "1db27214-8807-4ba5-9125-384082d5320a"
    query = f"select 1.5000::numeric(10, 4) as price, 1e50::numeric as large, '{uuid}'::uuid as id"
    with open_database(f"postgresql://{address}/shop") as database:
        row = database.read(query, {}).iloc[0].to_dict()
    assert row == {"price": Decimal("1.5"), "large": Decimal(10) ** 50, "id": uuid}


@pytest.mark.slow
def test_a_type_of_a_databases_own_has_to_be_cast(address):
    with open_database(f"postgresql://{address}/shop") as database, pytest.raises(UserError, match="cast it to text"):
        database.read("select inet '10.0.0.1' as address", {})


def test_the_folder_of_a_database_in_a_file_is_known():
    assert local_folder("sqlite:///srv/my%20data/shop.db") == "/srv/my data"
    assert local_folder("postgresql://db/shop") is None
    assert local_folder("/srv/shop") is None


MISTAKES = [
    "select refused from loans where at >= {date}",
    "select id from loans_locked",
    "select timeout from loans",
    "select 'shutting down",
    "select unavailable from terminated",
    "select too_many(deadlock) from loans",
]


@pytest.fixture(scope="module")
def loans(address, tmp_path_factory):
    """URIs of databases with a table."""
    folder = tmp_path_factory.mktemp("loans")
    uris = [f"sqlite://{folder}/a.db", f"duckdb://{folder}/a.duckdb", f"postgresql://{address}/shop"]
    for uri in uris:
        with open_database(uri) as database, database.transaction() as cursor:
            cursor.execute("create table loans (id integer)")
    return uris


@pytest.mark.slow
@pytest.mark.parametrize("query", MISTAKES)
def test_a_mistake_in_a_query_is_no_outage_whatever_words_it_has(loans, query):
    for uri in loans:
        with open_database(uri, read_only=True) as database, pytest.raises(UserError, match="check the query"):
            database.read(query, DAYS)


@pytest.mark.slow
def test_a_server_that_refuses_a_login_is_up_and_one_without_free_connections_may_be_tried_again(address, loans):
    server, (*_, uri) = address.partition("@")[2], loans
    for wrong in (f"{address}/refused", f"timeout@{server}/shop", f"{address}/shop?timed=out"):
        with pytest.raises(UserError, match="check the query, the names in it, the URI and the credentials"):
            open_database(f"postgresql://{wrong}")
    with open_database(uri) as database, database.transaction() as cursor:
        cursor.execute("create role few login connection limit 0")
    with pytest.raises(UnavailableError, match="check the database, then run the same command again"):
        open_database(f"postgresql://few@{server}/shop")


@pytest.mark.slow
def test_a_sqlite_database_that_another_process_writes_may_be_tried_again(tmp_path):
    with closing(sqlite3.connect(tmp_path / "a.db", isolation_level=None)) as writer:
        writer.execute("create table loans (id integer)")
        writer.execute("begin exclusive")
        with open_database(f"sqlite://{tmp_path}/a.db", read_only=True) as database:
            database.connection.execute("pragma busy_timeout = 0")
            with pytest.raises(UnavailableError, match="database is locked"):
                database.read("select * from loans", {})


def adbc(status: str, sqlstate: str | None = None, message: str = "refused") -> Exception:
    code = AdbcStatusCode[status]
    return adbc_driver_manager.OperationalError(f"{status}: {message}", status_code=code, sqlstate=sqlstate)


def aws(status: int, code: str) -> Exception:
    answer = {"Error": {"Code": code, "Message": "timed out"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return ClientError(answer, "StartQueryExecution")


def wrapped(cause: Exception) -> Exception:
    """An error of a driver that was raised from a library's."""
    error = RuntimeError("timed out")
    error.__cause__ = cause
    return error


SNOWFLAKE = {"msg": "refused: timed out", "errno": 250001}
ERRORS = [
    (adbc("IO"), True),
    (adbc("TIMEOUT"), True),
    (adbc("INTERNAL"), False),
    (adbc("INTERNAL", message="Binder Error: IO Error: Could not set lock on file"), False),
    (adbc("INTERNAL", message="IO Error: Could not set lock on file"), True),
    *((adbc("IO", state), True) for state in ("08006", "53300", "57P01", "57P03", "57014", "40001", "40P01", "55P03")),
    *((adbc("IO", state), False) for state in ("P0001", "42P01", "42703", "22012", "28P01", "3D000", "42501")),
    (snowflake.OperationalError(**SNOWFLAKE), True),
    (snowflake.ServiceUnavailableError(**SNOWFLAKE), True),
    (snowflake.DatabaseError(**SNOWFLAKE, sqlstate="08001"), False),  # a wrong password
    (snowflake.ProgrammingError(msg="timed out", errno=904, sqlstate="42000"), False),
    (snowflake.ProgrammingError(msg="stopped", errno=604, sqlstate="57014"), True),
    (bigquery.DatabaseError(exceptions.ServiceUnavailable("x")), True),
    (bigquery.DatabaseError(exceptions.TooManyRequests("x")), True),
    (bigquery.DatabaseError(exceptions.Forbidden("x", errors=[{"reason": "rateLimitExceeded"}])), True),
    (bigquery.DatabaseError(exceptions.Forbidden("timed out", errors=[{"reason": "accessDenied"}])), False),
    (bigquery.DatabaseError(exceptions.PermissionDenied("x", errors=[RuntimeError("of gRPC")])), False),
    (bigquery.DatabaseError(exceptions.BadRequest("Unrecognized name: refused")), False),
    (wrapped(aws(400, "ThrottlingException")), True),
    (wrapped(aws(503, "ServiceUnavailable")), True),
    (wrapped(aws(400, "InvalidRequestException")), False),
    (wrapped(EndpointConnectionError(endpoint_url="https://athena")), True),
    (RuntimeError("COLUMN_NOT_FOUND: column timeout"), False),
    (wrapped(ConnectionRefusedError()), True),
]


@pytest.mark.parametrize(("error", "passes"), ERRORS, ids=lambda value: f"{type(value).__name__} {value}"[:60])
def test_outages_and_mistakes_are_told_apart_by_codes(error, passes):
    assert is_outage(error) == passes
