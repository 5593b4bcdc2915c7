"""The shipped DAGs, as Airflow parses them."""

import graphlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from airflow.sdk import DAG, Asset, CronTriggerTimetable, PartitionedAssetTimetable, timezone
from airflow.sdk.exceptions import ParamValidationError
from airflow.serialization.decoders import decode_timetable
from airflow.serialization.encoders import encode_timetable
from airflow.timetables.base import TimeRestriction

from nightshift.runtime.errors import UserError
from pipelines.engines.airflow.dags import cron_schedule
from pipelines.engines.airflow.operators.alerts import report_failure
from pipelines.engines.airflow.operators.context import AirflowSettings
from tests.dags.samples import DAGS, Load, Shipped, changed, context, use_case

ENVIRONMENTS = [
    {},
    {"NIGHTSHIFT_ENVIRONMENT": "aws"},
    {"NIGHTSHIFT_ENVIRONMENT": "gcp"},
    {"NIGHTSHIFT_ENVIRONMENT": "aws", "KFP_ENDPOINT": "http://localhost:1"},
]
SHIPPED = ("fraud", "digits", "topics", "tales", "scans")
PURPOSES = ("ingestion", "monitoring", "training", "backfill")


@pytest.fixture
def on_drift(tmp_path: Path) -> Path:
    return use_case(tmp_path, changed(tmp_path, controller={"retrain": "on_drift"}))


def edges(dag) -> dict[str, set[str]]:
    return {task.task_id: set(task.upstream_task_ids) for task in dag.tasks}


def assets_of(dags: dict[str, DAG], names: set[str]) -> set[str]:
    """The assets that DAGs announce or follow."""
    followed = [getattr(dags[name].timetable, "asset_condition", None) for name in names]
    announced = [asset for name in names for task in dags[name].tasks for asset in getattr(task, "outlets", [])]
    return {asset.name for asset in [*followed, *announced] if isinstance(asset, Asset)}


@pytest.mark.parametrize("variables", ENVIRONMENTS)
def test_every_dag_is_there_in_every_place(variables: dict[str, str], load: Load) -> None:
    dags = load(**variables)

    assert set(dags) == {f"{name}_{purpose}" for name in SHIPPED for purpose in PURPOSES}
    for name, dag in dags.items():
        assert dag.doc_md
        assert dag.owner == "nightshift"
        assert dag.tags == {"nightshift", name.partition("_")[0]}
        assert not dag.catchup


def test_the_shipped_use_cases_of_other_kinds_are_simulated_wherever_frauds_events_are(load: Load) -> None:
    dags = load(NIGHTSHIFT_DATA="s3://bucket/fraud")

    data = {name: dags[f"{name}_training"].params["data"] for name in SHIPPED}
    assert data == dict.fromkeys(SHIPPED, "simulator") | {"fraud": "s3://bucket/fraud"}


def test_ingestion_announces_the_day(shipped: Shipped) -> None:
    dag = shipped()["fraud_ingestion"]

    assert dag.timetable == cron_schedule("0 1 * * *")
    assert edges(dag) == {"ingestion": set(), "announce_day": {"ingestion"}, "reporting": {"ingestion"}}
    assert [asset.name for asset in dag.get_task("announce_day").outlets] == ["fraud/day"]


def test_monitoring_follows_a_days_events_and_announces_a_request(shipped: Shipped) -> None:
    dag = shipped()["fraud_monitoring"]

    assert isinstance(dag.timetable, PartitionedAssetTimetable)
    assert dag.timetable.asset_condition == Asset("fraud/day")
    assert edges(dag) == {
        "ingestion": set(),
        "features": {"ingestion"},
        "scoring-of-champion": {"features"},
        "drift": {"features", "scoring-of-champion"},
        "monitoring": {"drift"},
        "retraining": {"monitoring"},
        "reporting": {"ingestion", "features", "scoring-of-champion", "drift", "monitoring", "retraining"},
        "announce_retrain": {"monitoring"},
    }


def test_training_is_by_the_clock_and_one_at_a_time_and_its_failures_are_told(shipped: Shipped) -> None:
    dag = shipped()["fraud_training"]

    assert dag.timetable == cron_schedule("0 2 * * *")
    assert dag.max_active_runs == 1
    assert edges(dag)["announce_model"] == {"deployment"}
    assert all(task.on_failure_callback == [report_failure] for task in dag.tasks)


def test_a_dag_that_is_turned_on_for_the_first_time_waits_for_its_next_time() -> None:
    timetable = decode_timetable(encode_timetable(cron_schedule("* * * * *")))
    before = timezone.utcnow()

    run = timetable.next_dagrun_info(
        last_automated_data_interval=None, restriction=TimeRestriction(None, None, catchup=False)
    )

    assert run.run_after >= before


def test_the_clocks_are_the_configs(load: Load, tmp_path: Path) -> None:
    config = changed(tmp_path, schedule={"ingestion": "30 4 * * *", "training": "0 5 * * 1"})
    dags = load(use_case(tmp_path, config))

    assert dags["fraud_ingestion"].timetable == cron_schedule("30 4 * * *")
    assert dags["fraud_training"].timetable == cron_schedule("0 5 * * 1")


def test_two_use_cases_in_one_airflow_share_no_dag_asset_or_data(load: Load, tmp_path: Path) -> None:
    use_case(tmp_path, "fraud", data="s3://bucket/fraud")
    dags = load(use_case(tmp_path, "machine-failure"), NIGHTSHIFT_DATA="s3://bucket/usual")
    fraud = {name for name in dags if name.startswith("fraud_")}
    machines = {name for name in dags if name.startswith("machine_failure_")}

    assert {len(fraud), len(machines)} == {4}
    assert fraud | machines == set(dags)
    assert not assets_of(dags, fraud) & assets_of(dags, machines)
    assert assets_of(dags, machines) == {f"machine-failure/{name}" for name in ("day", "retrain", "model")}
    for names, form in ((fraud, ("fraud", "s3://bucket/fraud")), (machines, ("machine-failure", "s3://bucket/usual"))):
        assert {(dags[name].params["config"], dags[name].params["data"]) for name in names} == {form}
    assert (
        dags["machine_failure_backfill"].get_task("run").partial_kwargs["trigger_dag_id"] == "machine_failure_training"
    )


def test_settings_of_airflow_move_neither_the_time_nor_the_day(load: Load) -> None:
    settings = {"CORE__DEFAULT_TIMEZONE": "Asia/Tokyo", "SCHEDULER__CREATE_CRON_DATA_INTERVALS": "True"}
    settings |= {"SCHEDULER__CATCHUP_BY_DEFAULT": "True"}
    dags = load(**{f"AIRFLOW__{name}": value for name, value in settings.items()})

    for name in ("fraud_ingestion", "fraud_training"):
        assert isinstance(dags[name].timetable, CronTriggerTimetable)
        assert str(dags[name].timetable.timezone) == "UTC"
    assert not any(dag.catchup for dag in dags.values())


def test_training_follows_requests_alone_when_the_config_says_so(load: Load, on_drift: Path) -> None:
    dag = load(on_drift)["fraud_training"]

    assert dag.timetable.asset_condition == Asset("fraud/retrain")


def test_versions_that_are_released_in_steps_have_a_dag_that_judges_them(load: Load, tmp_path: Path) -> None:
    dag = load(use_case(tmp_path, changed(tmp_path, release={"gradual": True})))["fraud_release"]

    assert dag.timetable == cron_schedule("0 7 * * *")
    assert edges(dag) == {
        "ingestion": set(),
        "features": {"ingestion"},
        "release": {"features"},
        "reporting": {"ingestion", "features", "release"},
        "announce_model": {"release"},
    }


def test_a_person_approves_a_version_by_the_form_of_the_release_which_no_clock_starts(
    load: Load, tmp_path: Path
) -> None:
    dag = load(use_case(tmp_path, changed(tmp_path, release={"approval": "required"})))["fraud_release"]
    task = dag.get_task("release").prepare_for_execution()
    form = {"approve": "7", "reason": "checked by {{ 7 * 7 }} 'people' $(id)"}

    task.render_template_fields(context(dag, params=form, triggering_user_name="ada"), dag.get_template_env())

    words = {name: task.argv[task.argv.index(f"--{name}") + 1] for name in ("approve", "reason", "by")}
    assert words == form | {"by": "ada"}
    assert dag.schedule is None
    for wrong in ("@/etc/passwd", "--date"):
        with pytest.raises(ParamValidationError):
            dag.params.get_param("reason").resolve(wrong)
    assert "fraud_release" not in load(use_case(tmp_path, changed(tmp_path)))


def test_a_run_that_assets_start_never_leads_to_itself(load: Load, on_drift: Path) -> None:
    dags = load(on_drift).values()
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


def test_the_form_has_what_a_person_chooses(load: Load, shipped: Shipped) -> None:
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
    on_cluster = shipped("aws")["fraud_training"].params
    assert (on_cluster["device"], on_cluster["target"]) == ("cuda", "register-only")


@pytest.mark.parametrize(("name", "value"), [("date", "30.6.2025"), ("device", "tpu"), ("data", ""), ("target", "x")])
def test_the_form_refuses_what_is_not_allowed(name: str, value: str, shipped: Shipped) -> None:
    param = shipped()["fraud_training"].params.get_param(name)

    with pytest.raises(ParamValidationError):
        param.resolve(value)


def test_a_place_that_does_not_exist_is_named() -> None:
    with pytest.raises(UserError, match="environment 'azure' is none of: local, aws, gcp"):
        AirflowSettings.from_environment({"NIGHTSHIFT_ENVIRONMENT": "azure"})


WATCH = """
import json, sys
import airflow.sdk, airflow.providers.cncf.kubernetes.operators.pod, airflow.providers.standard.operators.trigger_dagrun
import pipelines.engines.airflow.dags
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
    # a use case of another package is found by the entry points of what is installed
    metadata = re.compile(r"\.(py|pyc)$|__editable__|\.(dist|egg)-info/")
    read = [Path(name) for _, name in touched if Path(name).is_file() and not metadata.search(name)]
    pipelines = ("ingestion", "monitoring", "training")
    # each file of them those of three DAGs, and its config
    names = SHIPPED + len(SHIPPED) * pipelines
    assert sorted(path.name for path in read) == sorted(f"{name}.yaml" for name in names)
