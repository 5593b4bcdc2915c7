"""Events in a database: the same as in files, whatever the database, and read again only when they have changed."""

import io
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from components.ingestion import core, formats, sources
from components.ingestion.sources.sql import identify_rows
from nightshift import storage
from nightshift.config import parse
from nightshift.contracts import tables
from nightshift.data import databases
from nightshift.runtime.errors import UserError
from nightshift_testkit.databases import FilledDatabase, serve
from nightshift_testkit.processes import started, wait_until

from .conftest import CONFIG, DATE, Step

DAY = date.fromisoformat(DATE)


def query_of(time):
    return f"select * from events where {time} >= {{date}} and {time} < {{next_date}}"


@pytest.fixture(scope="module", params=[pytest.param("postgresql", marks=pytest.mark.slow), "duckdb", "sqlite"])
def database(request, tmp_path_factory):
    """A database of each kind."""
    with serve(request.param, tmp_path_factory.mktemp(request.param)) as filled:
        yield filled


@pytest.fixture
def sqlite(tmp_path, simulated):
    with serve("sqlite", tmp_path) as filled:
        filled.fill(simulated)
        yield filled


@pytest.fixture(scope="module")
def simulated(clean_days):
    """All rows of the daily Parquet files."""
    return pa.concat_tables([parquet.read_table(file) for file in sorted(clean_days.iterdir())])


def from_query(config, **source):
    return config | {"source": {"query": query_of("time")} | source}


def test_days_of_a_database_are_the_events_of_the_files(step, config, database, simulated, clean_events):
    database.fill(simulated)
    assert step.ingest(from_query(config), database.uri).sha256 == clean_events.sha256


@pytest.mark.slow
def test_days_in_snowflake_are_the_events_of_the_files(step, config, tmp_path, simulated, clean_events, monkeypatch):
    monkeypatch.setenv(databases.PASSWORD, "snow")
    # names without quotes come back in capitals
    config["columns"] = {role: name.upper() for role, name in config["columns"].items()}
    with serve("snowflake", tmp_path) as snowflake:
        snowflake.fill(simulated)
        run = step.run(from_query(config), snowflake.uri)
    assert run.returncode == 0, run.stderr
    assert tables.read_table(step.events).sha256 == clean_events.sha256


ZONES = ["UTC", "Europe/Paris", "America/New_York", "Asia/Kathmandu"]
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)
MOMENT = st.integers(0, 86_400_000_000 - 1).map(lambda micros: datetime(2024, 3, 10) + timedelta(microseconds=micros))
TYPES = {
    "event_id": (pa.int64(), INT64),
    "happened_at": (pa.timestamp("us", "UTC"), MOMENT.map(lambda moment: moment.replace(tzinfo=UTC))),
    "amount": (pa.decimal128(18, 4), st.decimals(0, 10**12, places=4)),
    "ratio": (pa.float64(), st.floats(allow_nan=False, allow_infinity=False)),
    "visits": (pa.int64(), st.none() | INT64),
    "label": (pa.bool_(), st.booleans()),
    "name": (pa.string(), st.none() | TEXT),
    "flag": (pa.bool_(), st.none() | st.booleans()),
    "code": (pa.decimal128(38, 0), st.none() | st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal)),
    "rate": (pa.decimal128(18, 4), st.none() | st.decimals(-(10**12), 10**12, places=4)),
    "wall": (pa.timestamp("us"), st.none() | MOMENT),
    "born": (pa.date32(), st.none() | st.dates()),
}
TYPED = parse(
    CONFIG
    | {
        "source": {"query": query_of("happened_at")},
        "columns": {
            "event_id": "event_id",
            "event_time": "happened_at",
            "amount": "amount",
            "label": "label",
            "numeric": ["ratio", "visits"],
            "categorical": ["name", "flag", "code", "rate", "wall", "born"],
        },
    }
)


@settings(
    max_examples=25,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(st.fixed_dictionaries({name: values for name, (_, values) in TYPES.items()}), min_size=1, max_size=6),
    st.sampled_from(ZONES),
)
def test_values_of_a_database_are_those_of_a_parquet_file(database, rows, zone):
    columns = {name: pa.array([row[name] for row in rows], kind) for name, (kind, _) in TYPES.items()}
    table, file = pa.table(columns), io.BytesIO()
    database.fill(table)
    parquet.write_table(table.set_column(1, "happened_at", table["happened_at"].cast(pa.timestamp("us", zone))), file)
    in_file = formats.parse("day.parquet", file.getvalue(), TYPED.columns)
    in_database = sources.connect(database.uri, TYPED, DAY).read(DAY).load()
    pd.testing.assert_frame_equal(core._read_columns(in_database, TYPED, ()), core._read_columns(in_file, TYPED, ()))


VERSION = "select count(*), max(updated_at) from events where time >= {date} and time < {next_date}"


def spoil(database: FilledDatabase) -> None:
    database.execute(f"update events set amount = amount + 1 where time >= '{DATE}'")


def test_a_day_whose_version_is_the_same_is_not_read_again(step, config, sqlite):
    sqlite.execute("alter table events add updated_at")
    config = from_query(config, version=VERSION)
    first = step.ingest(config, sqlite.uri)
    spoil(sqlite)
    assert step.ingest(config, sqlite.uri).sha256 == first.sha256
    sqlite.execute(f"update events set updated_at = '{DATE}' where time >= '{DATE}'")
    changed = step.ingest(config, sqlite.uri)
    assert [part.date for part in changed.partitions if part not in first.partitions] == [DATE]


def test_without_a_version_a_day_is_made_again_when_its_rows_have_changed(step, config, sqlite):
    first = step.ingest(from_query(config), sqlite.uri)
    spoil(sqlite)
    changed = step.ingest(from_query(config), sqlite.uri)
    assert [part.date for part in changed.partitions if part not in first.partitions] == [DATE]


def test_rows_in_another_order_are_the_same_rows(step, config, sqlite):
    first = step.ingest(from_query(config), sqlite.uri)
    backwards = from_query(config, query=f"{query_of('time')} order by transaction_id desc;")
    assert step.ingest(backwards, sqlite.uri).partitions == first.partitions


def test_the_versions_of_two_databases_and_of_two_queries_are_not_one(step, config, sqlite):
    config = from_query(config, version="select 1")
    first = step.ingest(config, sqlite.uri)
    config["source"]["query"] += " and transaction_id % 2 = 0"
    assert step.ingest(config, sqlite.uri).rows < first.rows


def test_a_null_is_not_the_text_nan():
    null, text = (pd.DataFrame({"name": [value, "b"]}, dtype=object) for value in (None, "nan"))
    assert identify_rows(null) != identify_rows(text)


@pytest.mark.slow
def test_a_day_that_changes_while_it_is_read_is_left_for_another_try(step, config, sqlite):
    run = step.run(from_query(config, version="select random()"), sqlite.uri)
    assert run.returncode == 1
    assert "2024-03-04 changed while it was read; run the same command again" in run.stderr
    assert "Traceback" not in run.stderr


def test_days_without_rows_are_missing_unless_the_config_allows_them(step, config, sqlite):
    sqlite.execute("delete from events where time >= '2024-03-09' and time < '2024-03-10'")
    with pytest.raises(UserError, match=r"2024-03-09; source\.query returns no row of 2024-03-09 from sqlite://"):
        step.ingest(from_query(config), sqlite.uri)
    table = step.ingest(from_query(config, empty_days=["saturday"]), sqlite.uri)
    assert [part.date for part in table.partitions if not part.rows] == ["2024-03-09"]


def test_what_a_query_holds_beside_its_dates_reaches_the_database_as_it_is(step, config, sqlite, clean_events):
    query = (
        f"with day as ({query_of('time')}) -- it's {{not}} a $1, a ? or 100 %s\nselect * from day where '{{x}}' <> '%'"
    )
    assert step.ingest(from_query(config, query=query), sqlite.uri).sha256 == clean_events.sha256


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"query": "select * from events"}, "'query' must contain {date}"),
        ({"query": "select * from events where day = '{date}'"}, "write it without quotes"),
        ({"files": "{date}.csv", "query": query_of("time")}, "give exactly one of"),
        ({"files": "{date}.csv", "version": "select 1"}, "'version' belongs to 'query'"),
    ],
)
def test_a_query_that_cannot_work_is_refused_before_it_is_tried(config, source, message):
    with pytest.raises(UserError, match=message):
        parse(config | {"source": source})


def test_a_query_needs_a_database_and_a_database_a_query(step, config, folder, sqlite):
    with pytest.raises(UserError, match="the config has no source query"):
        step.ingest(config, sqlite.uri)
    with pytest.raises(UserError, match="a query needs the URI of a database"):
        step.ingest(from_query(config), folder)


def test_a_read_may_not_write(step, config, database, simulated):
    database.fill(simulated)
    with databases.open_database(database.uri, read_only=True) as connected, pytest.raises(UserError):
        connected.read("delete from events where {date} is not null", {"date": DAY})


# the last row of a day waits for a lock, so the first rows have been sent by then
WAITS = "and (transaction_id <> {last} or pg_advisory_xact_lock_shared(7)::text = '')"


@pytest.mark.slow
def test_an_ingestion_that_is_killed_while_it_reads_is_repeated_without_a_trace(step, config, simulated):
    frame = simulated.to_pandas()
    last = frame[frame["time"] < "2024-03-08"]["transaction_id"].iloc[-1]
    config = from_query(config, query=f"{query_of('time')} {WAITS.replace('{last}', str(last))}")
    undisturbed = Step(step.root / "undisturbed")
    with serve("postgresql", step.root) as database:
        database.fill(simulated)
        undisturbed.ingest(config, database.uri)
        with databases.open_database(database.uri) as holder:
            holder.read("select pg_advisory_lock(7)::text as locked", {})
            with started(step.command(config, database.uri)) as process:
                wait_until(lambda: len(holder.read(WAITERS, {})), "the ingestion waits for the lock")
                assert files_below(step.lake), "days before are in the lake"
                process.kill()
        step.ingest(config, database.uri)
    assert files_below(step.lake) == files_below(undisturbed.lake)


WAITERS = "select 1 from pg_locks where locktype = 'advisory' and not granted"


def files_below(lake):
    """Return the hash of each file of a lake, by its name."""
    return {
        str(file.relative_to(lake)): storage.digest(str(file))
        for file in lake.rglob("*.parquet*")
        if file.suffix != ".json"
    }
