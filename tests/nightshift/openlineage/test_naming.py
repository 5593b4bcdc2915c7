"""Datasets have the names that other tools give them, by OpenLineage's rules."""

import pytest

from nightshift.config.source import Source
from nightshift.openlineage.naming import find_tables, name_artifact, name_model, name_sources, name_table, name_uri
from nightshift.runtime.identity import RunIdentity

DAY = "where booked_at >= {date} and booked_at < {next_date}"


@pytest.mark.parametrize(
    ("uri", "namespace", "name"),
    [
        ("/data/bookings.csv", "file", "/data/bookings.csv"),
        ("file:///data/bookings.csv", "file", "/data/bookings.csv"),
        ("s3://bucket/lake/fraud/events", "s3://bucket", "lake/fraud/events"),
        ("gs://bucket", "gs://bucket", "/"),
        (
            "https://user:password@mlflow.example.com:5000/models/fraud",
            "https://mlflow.example.com:5000",
            "models/fraud",
        ),
    ],
)
def test_a_uri_is_a_namespace_and_a_name_without_a_login(uri: str, namespace: str, name: str) -> None:
    assert name_uri(uri) == (namespace, name)


@pytest.mark.parametrize(
    ("data", "source", "expected"),
    [
        ("simulator", {"table": "x.csv"}, [("inmemory://", "simulator.bookings")]),
        ("/data", {"table": "bookings.csv"}, [("file", "/data/bookings.csv")]),
        ("s3://bucket/raw", {"files": "{date}.parquet"}, [("s3://bucket", "raw")]),
        ("s3://bucket/raw", {"delta": "events"}, [("s3://bucket", "raw/events")]),
        ("kafka://one:9092,two:9092", {"topic": "payments"}, [("kafka://one:9092", "payments")]),
        (
            "postgresql://reader@db.example.com/risk",
            {"query": f"select * from bookings b join sales.rooms r on r.id = b.room {DAY}"},
            [
                ("postgres://db.example.com:5432", "risk.public.bookings"),
                ("postgres://db.example.com:5432", "risk.sales.rooms"),
            ],
        ),
        ("bigquery://project/set", {"query": f"select * from bookings {DAY}"}, [("bigquery", "project.set.bookings")]),
        ("sqlite:////data/a.db", {"query": f"select * from bookings {DAY}"}, [("file", "/data/a.db/bookings")]),
        ("snowflake://org-acc/DB/S", {"query": f"select * from T {DAY}"}, [("snowflake://org-acc", "DB.S.T")]),
    ],
)
def test_raw_rows_come_from_the_dataset_that_their_own_tools_name(
    data: str, source: dict[str, str], expected: list[tuple[str, str]]
) -> None:
    assert name_sources(data, Source(**source), "bookings") == expected


def test_a_subquery_with_a_name_is_no_table() -> None:
    query = 'with recent as (select * from "sales"."bookings") select * from recent join (select 1) x on true'

    assert find_tables(query) == ["sales.bookings"]


def test_a_night_adds_a_version_to_a_dataset_and_not_a_dataset() -> None:
    nights = [RunIdentity("fraud", "training", f"/work/runs/fraud-training-{day}") for day in ("1", "2")]

    names = {name_artifact(f"{night.root}/drift/drift", night) for night in nights}

    assert names == {("file", "/work/runs/fraud/training/drift/drift")}


def test_a_table_is_its_folder_in_the_lake_and_a_model_its_entry_in_the_registry() -> None:
    assert name_table("gs://b/lake/fraud/events/date=2025-06-30/ab.parquet") == ("gs://b", "lake/fraud/events")
    assert name_model("/work/registry", "fraud") == ("file", "/work/registry/models/fraud")
