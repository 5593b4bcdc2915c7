"""Datasets have the names that other tools give them, by OpenLineage's rules."""

import json
from argparse import Namespace
from uuid import uuid4

import pytest

from nightshift.cluster.kubeflow import Definition
from nightshift.config.source import Source
from nightshift.openlineage.naming import (
    DatasetName,
    find_tables,
    name_artifact,
    name_model,
    name_sources,
    name_table,
    name_uri,
)
from nightshift.runtime.context import StepContext
from nightshift.runtime.identity import RunIdentity, StepIdentity, list_artifacts
from nightshift_testkit.kubeflow_runs import spec
from pipelines import arguments

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
    nights = [RunIdentity("fraud", "training", f"/srv/runs/fraud-training-{day}") for day in ("1", "2")]

    names = {name_artifact(f"{night.root}/drift/drift", night) for night in nights}

    assert names == {("file", "/srv/runs/fraud/training/drift/drift")}


def test_a_table_is_its_folder_in_the_lake_and_a_model_its_entry_in_the_registry() -> None:
    assert name_table("gs://b/lake/fraud/events/date=2025-06-30/ab.parquet") == ("gs://b", "lake/fraud/events")
    assert name_model("/srv/registry", "fraud") == ("file", "/srv/registry/models/fraud")


@pytest.mark.parametrize("pipeline", ["training", "monitoring", "scoring", "release"])
def test_on_kubeflow_what_a_step_reads_is_by_the_same_name_what_another_one_writes(pipeline: str) -> None:
    compiled = arguments.load_compiled(pipeline, "aws")
    run = "0af7651a-1111-4222-8333-b7ad6b716920"
    facts = spec.RunFacts(pipeline, run, "night", dict.fromkeys(compiled.parameters, "given"), "s3://bucket/v2")
    whole = Definition.read(compiled.yaml).fields["pipeline_spec"]

    names: dict[str, set[DatasetName]] = {"inputs": set(), "outputs": set()}
    for task, drivers in spec.walked(whole, facts):
        executor_input = json.loads(json.dumps(drivers).replace("/salt/", f"/{uuid4()}/"))
        context = StepContext(Namespace(executor_input=executor_input))
        step = StepIdentity.from_context(context, {"NIGHTSHIFT_PIPELINE": pipeline})
        assert step
        assert (step.task, step.run.root) == (task.name, f"s3://bucket/v2/{pipeline}/{run}")
        for kind, known in names.items():
            uris = [uri for own in list_artifacts(executor_input, kind).values() for uri in own]
            known.update(name_artifact(uri, step.run) for uri in uris)

    assert names["inputs"] <= names["outputs"]
    assert not any(run in name for _, name in names["outputs"])
