"""The shipped DAGs, as Airflow parses them."""

import graphlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from airflow.sdk import Asset, CronTriggerTimetable, PartitionedAssetTimetable
from airflow.sdk.exceptions import ParamValidationError

from components.common.errors import UserError
from pipelines.engines.airflow.operators import schedules
from pipelines.engines.airflow.operators.context import Place
from tests.dags.samples import DAGS, Load

PLACES = [
    {},
    {"NIGHTSHIFT_ENVIRONMENT": "aws"},
    {"NIGHTSHIFT_ENVIRONMENT": "gcp"},
    {"NIGHTSHIFT_ENVIRONMENT": "aws", "KFP_ENDPOINT": "http://localhost:1"},
]
ON_DRIFT = """
name: fraud
label_delay_days: 7
source: {files: "{date}.parquet"}
columns: {event_id: id, event_time: time, customer: customer, terminal: terminal, amount: amount, label: fraud}
training: {models: {only: {kind: logistic_regression}}}
controller: {retrain: on_drift}
"""


@pytest.fixture
def on_drift(tmp_path: Path) -> str:
    path = tmp_path / "on_drift.yaml"
    path.write_text(ON_DRIFT)
    return str(path)


def edges(dag) -> dict[str, set[str]]:
    return {task.task_id: set(task.upstream_task_ids) for task in dag.tasks}


@pytest.mark.parametrize("place", PLACES)
def test_every_dag_is_there_in_every_place(place: dict[str, str], load: Load) -> None:
    dags = load(**place)

    assert set(dags) == {path.stem for path in DAGS.glob("*.py")}
    assert set(dags) == {"fraud_ingestion", "fraud_monitoring", "fraud_training", "fraud_backfill"}
    for dag in dags.values():
        assert dag.doc_md
        assert dag.owner == "nightshift"
        assert "nightshift" in dag.tags
        assert not dag.catchup


def test_ingestion_announces_the_day(load: Load) -> None:
    dag = load()["fraud_ingestion"]

    assert dag.timetable == schedules.clock("0 1 * * *")
    assert edges(dag) == {"ingestion": set(), "announce_day": {"ingestion"}}
    assert [asset.name for asset in dag.get_task("announce_day").outlets] == ["fraud/day"]


def test_monitoring_follows_a_days_events_and_announces_a_request(load: Load) -> None:
    dag = load()["fraud_monitoring"]

    assert isinstance(dag.timetable, PartitionedAssetTimetable)
    assert dag.timetable.asset_condition == Asset("fraud/day")
    assert edges(dag) == {
        "ingestion": set(),
        "features": {"ingestion"},
        "scoring-of-champion": {"features"},
        "drift": {"features", "scoring-of-champion"},
        "monitoring": {"drift"},
        "retraining": {"monitoring"},
        "announce_retrain": {"monitoring"},
    }


def test_training_is_by_the_clock_and_one_at_a_time(load: Load) -> None:
    dag = load()["fraud_training"]

    assert dag.timetable == schedules.clock("0 2 * * *")
    assert dag.max_active_runs == 1
    assert edges(dag)["announce_model"] == {"deployment"}


def test_settings_of_airflow_move_neither_the_time_nor_the_day(load: Load) -> None:
    settings = {"CORE__DEFAULT_TIMEZONE": "Asia/Tokyo", "SCHEDULER__CREATE_CRON_DATA_INTERVALS": "True"}
    settings |= {"SCHEDULER__CATCHUP_BY_DEFAULT": "True"}
    dags = load(**{f"AIRFLOW__{name}": value for name, value in settings.items()})

    for name in ("fraud_ingestion", "fraud_training"):
        assert isinstance(dags[name].timetable, CronTriggerTimetable)
        assert str(dags[name].timetable.timezone) == "UTC"
    assert not any(dag.catchup for dag in dags.values())


def test_training_follows_requests_alone_when_the_config_says_so(load: Load, on_drift: str) -> None:
    dag = load(NIGHTSHIFT_CONFIG=on_drift)["fraud_training"]

    assert dag.timetable.asset_condition == Asset("fraud/retrain")


def test_a_run_that_assets_start_never_leads_to_itself(load: Load, on_drift: str) -> None:
    dags = load(NIGHTSHIFT_CONFIG=on_drift).values()
    follows: dict[str, set[str]] = {}
    for dag in dags:
        cause = getattr(dag.timetable, "asset_condition", None)
        follows[dag.dag_id] = {f"asset {cause.name}"} if isinstance(cause, Asset) else set()
        for task in dag.tasks:
            for asset in getattr(task, "outlets", []):
                follows.setdefault(f"asset {asset.name}", set()).add(dag.dag_id)

    order = list(graphlib.TopologicalSorter(follows).static_order())

    chain = ["fraud_ingestion", "asset fraud/day", "fraud_monitoring", "asset fraud/retrain", "fraud_training"]
    assert [name for name in order if name in chain] == chain


def test_a_kubeflow_run_is_one_task_which_a_trigger_waits_for(load: Load) -> None:
    dag = load(NIGHTSHIFT_ENVIRONMENT="gcp", KFP_ENDPOINT="http://localhost:1")["fraud_training"]

    assert edges(dag) == {"run": set(), "announce_model": {"run"}}


def test_the_form_has_what_a_person_chooses(load: Load) -> None:
    dag = load(NIGHTSHIFT_DATA="s3://bucket/raw")["fraud_training"]

    assert {name: param.value for name, param in dag.params.items()} == {
        "date": None,
        "data": "s3://bucket/raw",
        "config": "fraud",
        "device": "cpu",
        "target": "local",
    }
    assert dag.params.get_param("date").schema["format"] == "date"
    assert dag.params.get_param("device").schema["enum"] == ["cpu", "cuda"]


@pytest.mark.parametrize(("name", "value"), [("date", "30.6.2025"), ("device", "tpu"), ("data", ""), ("target", "x")])
def test_the_form_refuses_what_is_not_allowed(name: str, value: str, load: Load) -> None:
    param = load()["fraud_training"].params.get_param(name)

    with pytest.raises(ParamValidationError):
        param.resolve(value)


def test_a_clusters_runs_are_for_its_images_device(load: Load) -> None:
    dag = load(NIGHTSHIFT_ENVIRONMENT="aws")["fraud_training"]

    assert (dag.params["device"], dag.params["target"]) == ("cuda", "register-only")


def test_a_place_that_does_not_exist_is_named() -> None:
    with pytest.raises(UserError, match="environment 'azure' is none of: local, aws, gcp"):
        Place.named({"NIGHTSHIFT_ENVIRONMENT": "azure"})


WATCH = """
import json, sys
import airflow.sdk, airflow.providers.cncf.kubernetes.operators.pod, airflow.providers.standard.operators.trigger_dagrun
import pipelines.engines.airflow.dags
from pipelines.engines.airflow.operators import backfill, forms, schedules
touched = []
watched = ("open", "socket.connect")
sys.addaudithook(lambda event, args: touched.append([event, str(args[0])]) if event in watched else None)
import runpy
for path in sys.argv[1:]:
    runpy.run_path(path)
print(json.dumps(touched))
"""


def test_parsing_a_dag_reads_its_yaml_and_nothing_else() -> None:
    command = [sys.executable, "-c", WATCH, *map(str, sorted(DAGS.glob("*.py")))]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=DAGS.parent)
    touched = json.loads(done.stdout.splitlines()[-1])

    assert {event for event, _ in touched} == {"open"}
    read = [Path(name) for _, name in touched if not name.endswith((".py", ".pyc"))]
    assert {path.suffix for path in read} == {".yaml"}
    assert len(read) == 4  # the pipelines of three DAGs, and the config that says when training starts
