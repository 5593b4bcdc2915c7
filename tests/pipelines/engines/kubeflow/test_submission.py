"""`nightshift submit` and `nightshift schedule` against a server that speaks Kubeflow Pipelines' API."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from nightshift.cluster import ACCOUNT
from nightshift.cluster.kubeflow import Definition, KubeflowApi, KubeflowTarget
from nightshift.runtime.errors import UnavailableError, UserError
from nightshift_testkit.kubeflow import Failure, Kubeflow
from pipelines import arguments, configs
from pipelines.engines.kubeflow.submission import change, recurring, schedule, upload, watch
from tests.pipelines.samples import command, compiled_file, config_file, one_step, shell

DATE = "2025-07-01"
AWS = ["--environment", "aws"]
INSIDE = "http://ml-pipeline.kubeflow.svc.cluster.local:8888"
STATE = {
    "lake": "/lustre/lake",
    "registry": "http://mlflow.nightshift:5000",
    "runs": "/lustre/runs",
    "audit": "/lustre/audit",
    "checkpoints": "/lustre/checkpoints",
    "target": "register-only",
    "kubeflow": {"endpoint": INSIDE, "experiment": "fraud", "namespace": "", "service_account": "nightshift"},
    "serving": {},
    "dask": "",
}


def nightshift(kubeflow: Kubeflow, *words: str) -> "subprocess.CompletedProcess[str]":
    return command(*words, KFP_ENDPOINT=kubeflow.url)


def server_of(kubeflow: Kubeflow) -> KubeflowApi:
    return KubeflowApi(KubeflowTarget(kubeflow.url, "nightshift"), pause=0)


def spec_of(name: str) -> Any:
    spec, platform = arguments.load_compiled(name, "aws").documents
    return {"pipeline_spec": spec, "platform_spec": platform}


@pytest.fixture
def small(tmp_path: Path) -> Definition:
    return Definition.read(compiled_file(one_step("true"), tmp_path).read_bytes())


def test_a_run_is_submitted_with_the_environments_pipeline_and_typed_parameters(kubeflow: Kubeflow) -> None:
    done = nightshift(kubeflow, "submit", "--date", DATE, "--experiment", "fraud", *AWS)

    assert done.returncode == 0, done.stderr
    (body,), (experiment,) = kubeflow.bodies("/runs"), kubeflow.experiments
    assert body["pipeline_spec"] == spec_of("training")
    assert body["runtime_config"]["parameters"] == {
        "config": configs.load("fraud"),
        "date": DATE,
        "data": "simulator",
        "device": "cuda",
        "state": STATE,
    }
    assert body["service_account"] == "nightshift"
    assert (experiment.display_name, body["experiment_id"]) == ("fraud", experiment.experiment_id)
    assert body["display_name"].startswith(f"fraud-training-{DATE}-2")
    (run,) = kubeflow.runs
    assert run.run_id in done.stdout
    assert f"{kubeflow.url}/#/runs/details/{run.run_id}" in done.stdout


def test_a_run_has_the_account_that_a_step_of_it_needs_and_there_is_one(kubeflow: Kubeflow) -> None:
    compiled = arguments.load_compiled("release", "aws")
    values = arguments.gather_arguments(compiled, {"config": "fraud", "date": DATE, "data": "simulator"}, {})
    server = KubeflowApi(KubeflowTarget(kubeflow.url, "nightshift", service_account="runner"), pause=0)
    server.submit("one", Definition.read(compiled.yaml), values)
    (body,) = kubeflow.bodies("/runs")
    assert body["service_account"] == "nightshift-release"

    spec = spec_of("release")
    executors = spec["platform_spec"]["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    executors["exec-features"]["podMetadata"]["annotations"][ACCOUNT] = "another"
    with pytest.raises(UserError, match="service accounts another, nightshift-release, and a run on Kubeflow has one"):
        Definition.read(yaml.safe_dump_all([spec["pipeline_spec"], spec["platform_spec"]]).encode())


@pytest.mark.filterwarnings("ignore:This client only works with:FutureWarning")
def test_kubeflows_own_client_sends_the_same(kubeflow: Kubeflow, tmp_path: Path) -> None:
    from kfp import client

    package = tmp_path / "training.yaml"
    package.write_bytes(arguments.load_compiled("training", "aws").yaml)
    nightshift(kubeflow, "submit", "--date", DATE, "--service-account", "runner", *AWS)
    (ours,) = kubeflow.bodies("/runs")
    theirs = client.Client(host=kubeflow.url, namespace="").run_pipeline(
        experiment_id=ours["experiment_id"],
        job_name=ours["display_name"],
        pipeline_package_path=str(package),
        params=ours["runtime_config"]["parameters"],
        service_account="runner",
    )
    assert kubeflow.bodies("/runs") == [ours, ours]
    assert theirs.run_id != kubeflow.runs[0].run_id


def test_an_experiment_of_that_name_is_used(kubeflow: Kubeflow, small: Definition) -> None:
    for name in ("first", "second"):
        server_of(kubeflow).submit(name, small, {})
    assert len(kubeflow.experiments) == 1
    assert len({run.experiment_id for run in kubeflow.runs}) == 1


def test_a_namespace_is_passed_on(kubeflow: Kubeflow, small: Definition) -> None:
    KubeflowApi(KubeflowTarget(kubeflow.url, "nightshift", "team"), pause=0).submit("first", small, {})
    assert kubeflow.bodies("/experiments")[0]["namespace"] == "team"
    assert kubeflow.requests[0].query["namespace"] == "team"


def test_a_refused_token_is_one_line_and_exit_code_two(kubeflow: Kubeflow, tmp_path: Path) -> None:
    kubeflow.token = "right"
    (tmp_path / "token").write_text("wrong\n")
    done = nightshift(kubeflow, "submit", "--token-file", str(tmp_path / "token"), *AWS)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "answers 401 Unauthorized: the token is not valid; give the file of a token" in done.stderr
    assert "wrong" not in done.stdout + done.stderr
    assert len(kubeflow.requests) == 1


def test_a_token_is_read_from_its_file_each_time_since_it_is_renewed(
    kubeflow: Kubeflow, small: Definition, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text("old")
    server = KubeflowApi(KubeflowTarget(kubeflow.url, "nightshift"), str(file), pause=0)
    kubeflow.token = "new"
    with pytest.raises(UserError, match="401"):
        server.submit("first", small, {})
    file.write_text("new\n")
    assert server.submit("first", small, {}).new


def test_a_page_to_log_in_is_not_taken_for_an_answer(kubeflow: Kubeflow) -> None:
    kubeflow.page = True
    done = nightshift(kubeflow, "submit", *AWS)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "perhaps with a login page" in done.stderr


@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
def test_a_server_that_fails_before_or_after_it_has_made_the_run_is_asked_again_and_there_is_one_run(
    done: bool, kubeflow: Kubeflow, small: Definition
) -> None:
    kubeflow.failures += [Failure("GET", "/experiments"), Failure("POST", "/runs", 502, done)]
    server_of(kubeflow).submit("first", small, {})
    assert len(kubeflow.runs) == 1
    assert not kubeflow.failures


def test_a_server_that_goes_on_failing_is_given_up(kubeflow: Kubeflow, small: Definition) -> None:
    kubeflow.failures += [Failure("POST", "/runs") for _ in range(10)]
    with pytest.raises(UnavailableError, match="503 Service Unavailable: out of order, 4 times"):
        server_of(kubeflow).submit("first", small, {})
    assert len(kubeflow.bodies("/runs")) == 4


@pytest.mark.slow
def test_a_server_that_is_not_there_is_one_line_and_exit_code_one(kubeflow: Kubeflow) -> None:
    done = nightshift(kubeflow, "submit", "--endpoint", "http://127.0.0.1:9", *AWS)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert "http://127.0.0.1:9 does not answer" in done.stderr


def test_a_certificate_that_is_not_trusted_is_said_with_the_way_on(kubeflow: Kubeflow, small: Definition) -> None:
    server = KubeflowApi(KubeflowTarget(kubeflow.url.replace("http:", "https:"), "nightshift"), pause=0)
    with pytest.raises(UserError, match="name its certificate authority's file in SSL_CERT_FILE"):
        server.submit("first", small, {})


def test_what_the_server_refuses_is_told_in_its_words(kubeflow: Kubeflow, small: Definition) -> None:
    with pytest.raises(UserError, match=r"400 Bad Request: parameters \['x'\] are not \[\]"):
        server_of(kubeflow).submit("first", small, {"x": 1})
    assert len(kubeflow.bodies("/runs")) == 1


@pytest.mark.parametrize(("end", "code"), [("SUCCEEDED", 0), ("FAILED", 1), ("CANCELED", 1)])
def test_waiting_ends_with_the_runs_state(end: str, code: int, kubeflow: Kubeflow) -> None:
    kubeflow.states = [end]
    done = nightshift(kubeflow, "submit", "--wait", *AWS)
    assert done.returncode == code
    assert done.stdout.endswith(f"ingestion {end.lower()}\nrun {end.lower()}\n")


def test_each_change_of_a_step_is_told_once_while_waiting(kubeflow: Kubeflow, small: Definition) -> None:
    server, lines = server_of(kubeflow), list[str]()
    started = server.submit("first", small, {})
    kubeflow.states = ["PENDING", "RUNNING", "RUNNING", "SUCCEEDED"]
    assert watch(server, started.run_id, lines.append, every=0)
    states = ("pending", "running", "succeeded")
    assert lines == [f"{name} {state}" for state in states for name in ("ingestion", "run")]


def test_every_pipeline_of_the_configs_schedule_starts_by_the_clock(kubeflow: Kubeflow, tmp_path: Path) -> None:
    config = config_file(tmp_path, schedule={"training": "30 1 * * *"})
    done = nightshift(kubeflow, "schedule", "--experiment", "fraud", "--config", config, *AWS)

    assert done.returncode == 0, done.stderr
    assert "fraud-training: at 30 1 * * * UTC\n" in done.stdout
    schedules = kubeflow.bodies("/recurringruns")
    assert {body["display_name"]: body["trigger"]["cron_schedule"]["cron"] for body in schedules} == {
        "fraud-ingestion": "0 0 1 * * *",
        "fraud-training": "0 30 1 * * *",
        "fraud-monitoring": "0 0 6 * * *",
    }
    for body in schedules:
        assert body["pipeline_spec"] == spec_of("nightly")
        assert body["service_account"] == "nightshift"
        assert (body["mode"], body["no_catchup"], body["max_concurrency"]) == ("ENABLE", True, "1")
        assert body["experiment_id"] == kubeflow.experiments[0].experiment_id
    assert schedules[1]["runtime_config"]["parameters"] == {
        "pipeline": "training",
        "config": configs.load(config),
        "data": "simulator",
        "device": "cuda",
        "state": STATE,
    }
    assert [request.body for request in kubeflow.requests if request.path == "/pipelines/upload"] == [
        arguments.load_compiled(name, "aws").yaml.decode()
        for name in ("ingestion", "training", "monitoring", "release")
    ]
    assert "fraud-release: not scheduled, since release.gradual is false" in done.stdout


def test_two_use_cases_have_schedules_of_their_own(kubeflow: Kubeflow, tmp_path: Path) -> None:
    for config in ("fraud", "leads"):
        assert nightshift(kubeflow, "schedule", "--config", config, *AWS).returncode == 0
    fraud = [run for run in kubeflow.recurring if run.display_name.startswith("fraud-")]
    on_drift = config_file(tmp_path, controller={"retrain": "on_drift"})

    assert nightshift(kubeflow, "schedule", "--config", on_drift, "--replace", *AWS).returncode == 0

    names = [run.display_name for run in kubeflow.recurring]
    assert sorted(names) == [
        *("fraud-ingestion", "fraud-monitoring"),
        *("leads-ingestion", "leads-monitoring", "leads-training"),
    ]
    assert not {run.recurring_run_id for run in fraud} & {run.recurring_run_id for run in kubeflow.recurring}
    for run in kubeflow.recurring:
        values = run.runtime_config.parameters
        assert run.display_name == f"{values['config']['name']}-{values['pipeline']}"


def test_the_same_schedule_again_changes_nothing_and_another_one_has_to_be_asked_for(
    kubeflow: Kubeflow, tmp_path: Path
) -> None:
    later = ["--config", config_file(tmp_path, schedule={"training": "0 3 * * *"})]
    nightshift(kubeflow, "schedule", *AWS)
    ids = {run.recurring_run_id for run in kubeflow.recurring}

    again = nightshift(kubeflow, "schedule", *AWS)
    assert again.returncode == 0
    assert again.stdout.count(", as before") == 4
    refused = nightshift(kubeflow, "schedule", *later, *AWS)
    assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)
    assert "another recurring run 'fraud-ingestion'" in refused.stderr
    assert {run.recurring_run_id for run in kubeflow.recurring} == ids
    assert len(kubeflow.versions) == 4

    replaced = nightshift(kubeflow, "schedule", *later, "--replace", *AWS)
    assert replaced.returncode == 0, replaced.stderr
    assert [run.trigger.cron_schedule.cron for run in kubeflow.recurring] == [
        *("0 0 1 * * *", "0 0 3 * * *", "0 0 6 * * *"),
    ]
    assert not {run.recurring_run_id for run in kubeflow.recurring} & ids


def test_a_schedule_that_is_refused_has_changed_nothing(kubeflow: Kubeflow) -> None:
    nightshift(kubeflow, "schedule", *AWS)
    del kubeflow.recurring[:2]  # monitoring's, the last one, differs
    kubeflow.versions.clear()

    refused = nightshift(kubeflow, "schedule", "--data", "s3://bucket/raw", *AWS)

    assert refused.returncode == 2
    assert "another recurring run 'fraud-monitoring'" in refused.stderr
    assert (len(kubeflow.recurring), kubeflow.versions) == (1, [])


def test_a_schedule_that_somebody_has_paused_is_not_taken_for_the_wanted_one(kubeflow: Kubeflow) -> None:
    nightshift(kubeflow, "schedule", *AWS)
    kubeflow.recurring[1].status = "DISABLED"
    assert nightshift(kubeflow, "schedule", *AWS).returncode == 2
    assert nightshift(kubeflow, "schedule", "--replace", *AWS).returncode == 0
    assert [run.status for run in kubeflow.recurring] == ["ENABLED"] * 3


def test_a_lost_answer_makes_no_second_schedule(kubeflow: Kubeflow) -> None:
    kubeflow.failures.append(Failure("POST", "/recurringruns", done=True))
    assert nightshift(kubeflow, "schedule", *AWS).returncode == 0
    assert len(kubeflow.recurring) == 3


def test_the_old_schedule_stays_until_the_new_one_is_there(kubeflow: Kubeflow) -> None:
    nightly, server = arguments.load_compiled("nightly", "aws"), server_of(kubeflow)
    values = arguments.gather_arguments(nightly, {"pipeline": "training"}, {})
    schedule(server, change(server, "mine", recurring("mine", nightly, values, "0 2 * * *"), replace=False))
    (old,) = kubeflow.recurring
    kubeflow.failures += [Failure("POST", "/recurringruns") for _ in range(4)]

    new = change(server, "mine", recurring("mine", nightly, values, "0 3 * * *"), replace=True)
    with pytest.raises(UnavailableError):
        schedule(server, new)
    assert kubeflow.recurring == [old]
    assert schedule(server, new)
    assert [run.trigger.cron_schedule.cron for run in kubeflow.recurring] == ["0 0 3 * * *"]


def test_where_drift_retrains_training_does_not_run_by_the_clock(kubeflow: Kubeflow, tmp_path: Path) -> None:
    nightshift(kubeflow, "schedule", *AWS)
    words = ["schedule", "--config", config_file(tmp_path, controller={"retrain": "on_drift"}), *AWS]

    assert nightshift(kubeflow, *words).returncode == 2
    done = nightshift(kubeflow, *words, "--replace")

    assert done.returncode == 0, done.stderr
    assert "fraud-training: not scheduled, since controller.retrain is on_drift\n" in done.stdout
    assert [run.display_name for run in kubeflow.recurring] == ["fraud-ingestion", "fraud-monitoring"]
    assert {pipeline.display_name for pipeline in kubeflow.pipelines} == {
        *("ingestion", "training", "monitoring", "release")
    }


def test_an_older_definition_becomes_the_newest_again_and_a_lost_answer_makes_no_second_one(
    kubeflow: Kubeflow, tmp_path: Path
) -> None:
    server = server_of(kubeflow)
    kubeflow.failures += [Failure("POST", f"/pipelines/{path}", done=True) for path in ("upload", "upload_version")]
    for script in ("one", "two", "two", "one"):

        def pipeline(script: str = script) -> None:
            shell(script=script)

        upload(server, "sample", compiled_file(pipeline, tmp_path).read_bytes())

    defaults = [v.pipeline_spec["root"]["inputDefinitions"]["parameters"]["script"] for v in kubeflow.versions]
    assert [default["defaultValue"] for default in defaults] == ["one", "two", "one"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["submit", "--endpoint", "", *AWS], "endpoint is ''; give the URL"),
        (["submit", "--endpoint", "kubeflow.example", *AWS], "http://... or https://..."),
        (["submit", "--environment", "local"], "state.lake is None; give a folder or a URI"),
        (["submit", "--environment", "azure"], "'azure' is none of: local, aws, gcp"),
        (["submit", "--token-file", "nowhere", *AWS], "there is no such file"),
        (["submit", "--date", "today", *AWS], "write a day as YYYY-MM-DD"),
    ],
)
def test_a_mistake_is_one_line_exit_code_two_and_starts_nothing(
    words: list[str], message: str, kubeflow: Kubeflow
) -> None:
    done = nightshift(kubeflow, *words)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert message in done.stderr
    assert not kubeflow.runs
    assert not kubeflow.recurring
