"""Scores in real databases: DuckDB, SQLite, and PostgreSQL with the least rights that suffice."""

import json
import signal
import sys
from collections.abc import Iterator
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from components.scoring import sink
from components.scoring.__main__ import body
from nightshift import registry
from nightshift.config import parse
from nightshift.config.scoring import Scoring
from nightshift.contracts import tables
from nightshift.contracts.tables import Partition
from nightshift.data.databases import open_database
from nightshift.registry import release_record
from nightshift.registry.release_record import ReleaseRef
from nightshift.runtime.errors import UnavailableError, UserError
from nightshift_testkit import postgresql
from nightshift_testkit.processes import started, wait_until
from nightshift_testkit.servers import free_port
from tests.components import samples
from tests.components.states import state

CREATE = """
create table fraud_scores (
    event_id bigint, model_version varchar(20), event_time timestamp, score real, flagged boolean,
    primary key (event_id, model_version)
)
"""
DAYS = [date(2024, 3, 1), date(2024, 3, 2)]


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with postgresql.serve("risk") as address:
        yield f"postgresql://{address}/risk"


@pytest.fixture(params=["duckdb", "sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database with the table."""
    postgres = request.param == "postgresql"
    uri = request.getfixturevalue("server") if postgres else f"{request.param}://{tmp_path}/scores.db"
    execute(uri, "drop table if exists fraud_scores", CREATE)
    return uri


@pytest.fixture
def postgres(server: str) -> str:
    execute(server, "drop table if exists fraud_scores", CREATE)
    return server


def execute(uri: str, *statements: str) -> None:
    with open_database(uri) as database, database.transaction() as cursor:
        for statement in statements:
            cursor.execute(statement)


def select(uri: str, query: str = "select * from fraud_scores order by event_id, model_version") -> pd.DataFrame:
    with open_database(uri, read_only=True) as database:
        return database.read(query, {})


def write(folder: Path, day: date, events: int = 3, version: str = "1", **columns: Any) -> Partition:
    """Write a day's scores into the lake."""
    first = day.toordinal() * 10
    times = pd.Timestamp(day) + pd.to_timedelta(range(events), unit="ms")
    rows = pd.DataFrame({"event_id": np.arange(first, first + events), "event_time": times.astype("datetime64[us]")})
    rows["score"] = np.linspace(0.1, 0.9, events, dtype="float32")
    rows["flagged"] = rows["score"] >= 0.5
    frame = rows.assign(model_version=version, **columns)
    uri = tables.partition_uri(str(folder), "tiny", "scores", day, f"{version:0>16}{len(columns)}")
    return tables.write_partition(uri, day, frame, {})


def table(uri: str) -> Scoring:
    return Scoring(database=uri, table="fraud_scores")


def test_a_day_is_in_the_table_by_event_and_version_as_in_the_lake(uri: str, tmp_path: Path) -> None:
    parts = [write(tmp_path, day, version=version) for day in DAYS for version in ("1", "2")]
    sink.write_days(table(uri), parts)
    lake = pd.concat([pd.read_parquet(part.uri) for part in parts]).sort_values(["event_id", "model_version"])
    rows = select(uri)
    assert rows["event_id"].tolist() == lake["event_id"].tolist()
    assert rows["model_version"].tolist() == lake["model_version"].tolist()
    assert rows["score"].tolist() == pytest.approx(lake["score"].tolist())
    assert rows["flagged"].astype(bool).tolist() == lake["flagged"].tolist()
    assert pd.to_datetime(rows["event_time"]).tolist() == lake["event_time"].tolist()


def test_scores_that_changed_replace_those_that_are_there(uri: str, tmp_path: Path) -> None:
    first = write(tmp_path, DAYS[0])
    sink.write_days(table(uri), [first])
    sink.write_days(table(uri), [first])
    again = write(tmp_path, DAYS[0], score=np.array([0.1, 0.7, 0.9], "float32"))
    sink.write_days(table(uri), [again])
    assert select(uri)["score"].tolist() == pytest.approx([0.1, 0.7, 0.9])


def test_a_day_without_events_changes_nothing(uri: str, tmp_path: Path) -> None:
    sink.write_days(table(uri), [write(tmp_path, DAYS[0], events=0)])
    assert select(uri).empty


@pytest.mark.slow
def test_a_rerun_writes_no_row_again(postgres: str, tmp_path: Path) -> None:
    parts = [write(tmp_path, day) for day in DAYS]
    sink.write_days(table(postgres), parts)
    writers = "select event_id, xmin::text as writer from fraud_scores order by event_id"
    before = select(postgres, writers)
    sink.write_days(table(postgres), parts)
    pd.testing.assert_frame_equal(select(postgres, writers), before)


def test_a_day_that_the_table_refuses_is_not_there_at_all_and_the_days_before_it_are(uri: str, tmp_path: Path) -> None:
    execute(uri, "drop table fraud_scores", CREATE.replace("score real", "score real check (score < 2)"))
    parts = [write(tmp_path, DAYS[0]), write(tmp_path, DAYS[1], score=np.array([0.1, 3, 0.2], "float32"))]
    with pytest.raises(UserError, match=r"^the scores of 2024-03-02 are not in scoring.table 'fraud_scores': .*check"):
        sink.write_days(table(uri), parts)
    assert len(select(uri)) == 3


def test_a_table_that_is_missing_is_not_created(uri: str, tmp_path: Path) -> None:
    execute(uri, "drop table fraud_scores")
    with pytest.raises(UserError, match=r"fraud_scores.*docs/guides/monitoring.md shows the statement that creates it"):
        sink.write_days(table(uri), [write(tmp_path, DAYS[0])])
    with pytest.raises(UserError, match="fraud_scores"):
        select(uri)


@pytest.mark.slow
def test_a_run_that_is_killed_leaves_all_of_a_day_or_nothing_and_the_next_one_completes_it(
    postgres: str, tmp_path: Path
) -> None:
    parts = [write(tmp_path, day) for day in DAYS]
    code = (
        "import json, sys; from components.scoring import sink; from nightshift.contracts.tables import Partition\n"
        "from nightshift.config.scoring import Scoring; uri, *parts = json.loads(sys.argv[1])\n"
        "days = [Partition(**part) for part in parts]\n"
        "sink.write_days(Scoring(database=uri, table='fraud_scores'), days)"
    )
    command = [sys.executable, "-c", code, json.dumps([postgres, *map(asdict, parts)])]
    with open_database(postgres) as other, other.transaction() as cursor:
        # the second day waits for this row
        cursor.execute("insert into fraud_scores values ($1, '1')", (DAYS[1].toordinal() * 10,))
        with started(command) as run:
            wait_until(lambda: is_waiting(postgres), "the run is in the middle of the second day")
            run.send_signal(signal.SIGKILL)
            run.wait()
        cursor.execute("delete from fraud_scores where score is null")
    wait_until(lambda: not is_waiting(postgres), "the server has noticed")
    assert len(select(postgres)) == 3
    sink.write_days(table(postgres), parts)
    assert len(select(postgres)) == 6


def is_waiting(uri: str) -> bool:
    return not select(uri, "select 1 from pg_stat_activity where wait_event_type = 'Lock'").empty


@pytest.mark.slow
def test_a_role_that_may_select_insert_and_update_suffices(postgres: str, tmp_path: Path) -> None:
    roles = "do $$ begin create role scorer login; exception when duplicate_object then null; end $$"
    execute(postgres, roles, "grant select, insert, update on fraud_scores to scorer")
    as_scorer = postgres.replace(postgresql.USER, "scorer")
    sink.write_days(table(as_scorer), [write(tmp_path, DAYS[0])])
    assert len(select(as_scorer)) == 3


def test_a_database_that_is_down_may_answer_later(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match=r"postgresql://nobody@127.0.0.1:\d+/risk: .*run the same command again"):
        sink.write_days(table(f"postgresql://nobody@127.0.0.1:{free_port()}/risk"), [write(tmp_path, DAYS[0])])


@pytest.mark.usefixtures("stocked")
def test_the_step_writes_the_champions_scores_and_no_candidates(tmp_path: Path) -> None:
    uri = f"duckdb://{tmp_path}/scores.db"
    execute(uri, CREATE)
    samples.write_model(tmp_path / "model", {"only": [1.0, 0.0]})
    config = json.dumps(samples.CONFIG | {"scoring": {"database": uri, "table": "fraud_scores"}})
    flags = {"config": config, "features": samples.write_features(tmp_path, samples.features())}
    flags |= {"state": state(tmp_path), "scores": str(tmp_path / "scores")}
    body(samples.context(**flags, model=str(tmp_path / "model")))
    assert select(uri).empty
    version = registry.register(str(tmp_path / "registry"), "tiny", str(tmp_path / "model"), {})
    release_record.promote(ReleaseRef(str(tmp_path / "registry"), "tiny"), version.version)
    body(samples.context(**flags, model=""))
    assert len(select(uri)) == 3 * 40
    assert set(select(uri)["model_version"]) == {str(version.version)}


@pytest.mark.parametrize(
    ("scoring", "message"),
    [
        ({"database": "snowflake://me@account/risk"}, "written to postgresql, duckdb, sqlite, not to snowflake"),
        ({"database": "postgresql://me:secret@host/risk"}, "holds a password"),
        ({"table": None}, r"scoring.database is set without scoring.table; set both, or neither"),
        ({"table": "scores; drop table scores"}, r"scoring.table: String should match pattern"),
    ],
)
def test_a_wrong_sink_is_refused_with_what_is_allowed(scoring: dict[str, str], message: str) -> None:
    sink = {"database": "duckdb:///scores.db", "table": "fraud_scores"} | scoring
    with pytest.raises(UserError, match=message) as error:
        parse(samples.CONFIG | {"scoring": sink})
    assert "secret" not in str(error.value)
