"""The operators, with real processes and a server that speaks Kubeflow's API."""

import asyncio
import email.policy
import json
import multiprocessing
import socketserver
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from airflow.sdk import DAG
from airflow.sdk.definitions.mappedoperator import MappedOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException, AirflowSkipException, TaskDeferred
from airflow.serialization.serialized_objects import DagSerialization

from nightshift import storage
from nightshift.runtime.observers import PARENT, ROOT
from nightshift_testkit.kubeflow import Kubeflow
from nightshift_testkit.processes import SECONDS, content, wait_until
from pipelines import configs, ir
from pipelines.engines.airflow import interpreter
from pipelines.engines.airflow.operators import alerts, assets, backfill, context, lineage
from pipelines.engines.airflow.operators.kubeflow import KubeflowRunOperator, KubeflowRunTrigger
from pipelines.engines.airflow.operators.links import MODEL, REPORT
from pipelines.engines.airflow.operators.process import StepOperator
from tests.dags.samples import Load, Shipped, compiled, in_a_loop
from tests.dags.samples import context as of_run

MOMENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class Sample:
    """A DAG run of a small pipeline, whose tasks are executed one by one."""

    def __init__(self, folder: Path, numbers: int = 0, environment: str = "local", **scripts: str) -> None:
        variables = {"NIGHTSHIFT_WORKSPACE": str(folder), "NIGHTSHIFT_ENVIRONMENT": environment}
        self.settings = context.AirflowSettings.from_environment(variables)
        path = compiled(folder, "sample", **scripts)
        if numbers:  # of the second step
            path = in_a_loop(path, [*scripts][1], numbers, [*scripts][2])
        self.rendering = context.Rendering(ir.load(path), self.settings)
        with DAG("sample", schedule=None, params={"date": None}, user_defined_macros=self.rendering.macros) as self.dag:
            self.tasks = interpreter.steps(self.rendering)
        run: dict[str, Any] = {"run_id": "one", "run_after": MOMENT, "start_date": MOMENT}
        self.context = of_run(self.dag, **run, params={"date": "2025-06-30"})
        self.folder = Path(self.rendering.commands(self.context).root)

    def execute(self, step: str) -> None:
        task = self.tasks[step]
        assert isinstance(task, StepOperator)
        task.argv = self.rendering.commands(self.context).argv(task.step)
        task.execute(self.context)

    @property
    def record(self) -> dict[str, Any]:
        return json.loads((self.folder / "run.json").read_text())


def test_a_tasks_words_are_its_steps_with_jinja_in_the_place_of_values(tmp_path: Path) -> None:
    sample = Sample(tmp_path, first="true")

    date, uri = "{{ fill('first', 'parameter', 'date') }}", "{{ fill('first', 'output', 'output') }}"
    assert sample.tasks["first"].argv == ["sh", "-c", "true", date, uri]


def test_a_step_leaves_what_a_local_run_leaves(tmp_path: Path) -> None:
    sample = Sample(tmp_path, first='echo "$0" > "$1"')
    sample.execute("first")

    assert (sample.folder / "first/output").read_text() == "2025-06-30\n"
    assert sample.record["engine"] == "airflow"
    assert sample.record["parameters"] == {"date": "2025-06-30"}
    assert sample.record["steps"]["first"]["state"] == "done"
    assert ir.load(sample.folder / "pipeline.yaml").name == "sample"


def test_the_command_line_goes_on_with_a_run_that_failed_in_airflow(tmp_path: Path) -> None:
    sample = Sample(tmp_path, first="true", second=f'test -e "{tmp_path}/fixed" && echo "$0" > "$1"')
    sample.execute("first")
    with pytest.raises(AirflowException, match="exit code 1"):
        sample.execute("second")
    (tmp_path / "fixed").touch()

    words = ["run", "--resume", sample.folder.name, "--workspace", str(tmp_path)]
    subprocess.run([sys.executable, "-m", "pipelines.cli", *words], check=True, capture_output=True)

    assert sample.record["complete"]
    assert (sample.folder / "second/output").read_text() == "2025-06-30\n"


def test_a_loops_steps_are_one_mapped_task_and_the_next_step_is_given_all_they_have_made(tmp_path: Path) -> None:
    sample = Sample(tmp_path, 2, first="true", second='echo "$0 $2" > "$1"', third='echo "$2" > "$1"')
    mapped = sample.tasks["second"]
    assert isinstance(mapped, MappedOperator) and [*sample.tasks] == ["first", "second", "third"]
    assert (mapped.upstream_task_ids, sample.tasks["third"].upstream_task_ids) == ({"first"}, {"second"})

    for number in range(2):
        task = mapped.unmap({"number": number})
        inside = sample.context | {"ti": SimpleNamespace(map_index=number)}
        task.render_template_fields(inside, sample.dag.get_template_env())
        task.execute(inside)
    sample.execute("third")

    assert [(sample.folder / f"second-{n}/output").read_text() for n in range(2)] == [
        f"2025-06-30 {n}\n" for n in (0, 1)
    ]
    collected = json.loads((sample.folder / "third/output").read_text())["inputs"]["artifacts"]["all"]["artifacts"]
    assert [artifact["uri"] for artifact in collected] == [f"{sample.folder}/second-{n}/output" for n in range(2)]
    assert sample.record["steps"].keys() == {"second-0", "second-1", "third"}


def test_a_loops_pods_differ_in_their_number_and_what_they_say_is_pulled_by_it(tmp_path: Path) -> None:
    sample = Sample(tmp_path, 2, "aws", first="true", second="true", third="true")
    pulls = []

    def pull(**which: Any) -> dict[str, Any]:
        pulls.append(which)
        return {"rows": which.get("map_indexes", -1)}

    inside = sample.context | {"ti": SimpleNamespace(map_index=1, xcom_pull=pull)}
    task = sample.tasks["second"].unmap({"number": 1})
    task.render_template_fields(inside, sample.dag.get_template_env())
    third = sample.rendering.commands(inside).argv(sample.rendering.pipeline.tasks[-1])

    assert task.cmds[-2:] == [f"{sample.rendering.commands(inside).root}/second-1/output", "1"]
    collected = json.loads(third[-1])["inputs"]["artifacts"]["all"]["artifacts"]
    assert [artifact["metadata"] for artifact in collected] == [{"rows": 0}, {"rows": 1}]
    assert pulls == [{"task_ids": "second", "map_indexes": number} for number in range(2)]
    first, second = (DagSerialization.serialize_dag(sample.dag) for _ in range(2))
    assert first == second


def test_a_steps_process_gets_nothing_of_airflows_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets = ("AIRFLOW__DATABASE__SQL_ALCHEMY_CONN", "AIRFLOW_CONN_NIGHTSHIFT_SLACK", "AIRFLOW_VAR_KEY", "_AIRFLOW_X")
    for name in secrets:
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("AWS_PROFILE", "nightshift")
    sample = Sample(tmp_path, first='env > "$1"')
    sample.execute("first")

    environment = (sample.folder / "first/output").read_text()
    assert "AIRFLOW_" not in environment
    assert "AWS_PROFILE=nightshift" in environment


MACROS = "airflow.providers.openlineage.plugins.macros"
NAMES = 'echo "$OPENLINEAGE_PARENT_ID $OPENLINEAGE_ROOT_PARENT_ID" > "$1"'


def test_a_steps_parent_is_the_run_that_openlineages_provider_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    macros = {"lineage_parent_id": lambda _: "prod/sample.first/1", "lineage_root_parent_id": lambda _: "prod/sample/2"}
    monkeypatch.setitem(sys.modules, MACROS, SimpleNamespace(**macros))
    sample = Sample(tmp_path, first=NAMES)
    sample.execute("first")

    assert (sample.folder / "first/output").read_text() == "prod/sample.first/1 prod/sample/2\n"


@pytest.mark.parametrize("macros", [None, SimpleNamespace(lineage_parent_id=None, lineage_root_parent_id=None)])
def test_a_step_works_without_that_provider_or_with_one_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, macros: SimpleNamespace | None
) -> None:
    monkeypatch.setitem(sys.modules, MACROS, macros)
    sample = Sample(tmp_path, first=NAMES)
    sample.execute("first")

    assert (sample.folder / "first/output").read_text() == " \n"


def test_the_real_provider_names_the_run_of_a_task_and_of_its_dag() -> None:
    pytest.importorskip(MACROS, reason="apache-airflow-providers-openlineage is not installed")
    run = SimpleNamespace(logical_date=MOMENT, run_after=MOMENT, clear_number=0, conf={})
    names = {"dag_id": "sample", "task_id": "first", "try_number": 1, "map_index": -1, "dag_run": run}
    task = SimpleNamespace(**names, get_template_context=lambda: {"dag_run": run})

    variables = lineage.name_parent({"ti": task})

    named = {name: text.rpartition("/") for name, text in variables.items()}
    assert {name: parts[0] for name, parts in named.items()} == {PARENT: "default/sample.first", ROOT: "default/sample"}
    assert all(UUID(parts[2]) for parts in named.values())


def test_what_a_step_prints_is_in_the_tasks_log_while_it_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sample = Sample(tmp_path, first=f'echo early; while [ ! -e "{tmp_path}/go" ]; do sleep 0.1; done; echo late')
    thread = threading.Thread(target=sample.execute, args=("first",))
    thread.start()
    printed: list[str] = []
    try:
        wait_until(lambda: printed.append(capsys.readouterr().out) or "early" in "".join(printed), "it is printed")
    finally:
        (tmp_path / "go").touch()
        thread.join()

    assert "late" not in "".join(printed)
    assert "late" in capsys.readouterr().out


def test_a_users_mistake_is_not_tried_again_and_other_failures_are(tmp_path: Path) -> None:
    sample = Sample(tmp_path, mistake="echo give another; exit 2", crash="exit 3")

    with pytest.raises(AirflowFailException, match="exit code 2: give another"):
        sample.execute("mistake")
    with pytest.raises(AirflowException, match="exit code 3") as raised:
        sample.execute("crash")
    assert not isinstance(raised.value, AirflowFailException)
    assert {name: step["state"] for name, step in sample.record["steps"].items()} == {
        "mistake": "failed",
        "crash": "failed",
    }


def test_a_preempted_step_runs_again_within_the_same_try(tmp_path: Path) -> None:
    sample = Sample(
        tmp_path, first=f'echo once more >> "{tmp_path}/tries"; [ $(wc -l < "{tmp_path}/tries") = 3 ] || exit 75'
    )
    sample.execute("first")

    assert sample.record["steps"]["first"]["state"] == "done"


def test_tasks_that_end_at_the_same_time_both_are_in_the_record(tmp_path: Path) -> None:
    steps = {f"step{number}": "true" for number in range(6)}
    sample = Sample(tmp_path, **steps)
    fork = multiprocessing.get_context("fork")  # as Airflow's workers do
    processes = [fork.Process(target=sample.execute, args=(step,)) for step in steps]
    for process in processes:
        process.start()
    for process in processes:
        process.join(SECONDS)

    assert set(sample.record["steps"]) == set(steps)


def test_a_killed_task_ends_its_processes(tmp_path: Path) -> None:
    sample = Sample(tmp_path, long=f'echo $$ > "{tmp_path}/pid"; exec sleep 300')
    caught: list[BaseException] = []

    def execute() -> None:
        try:
            sample.execute("long")
        except AirflowException as error:
            caught.append(error)

    thread = threading.Thread(target=execute)
    thread.start()
    pid = content(tmp_path / "pid").strip()
    sample.tasks["long"].on_kill()
    thread.join(SECONDS)

    assert "exit code -15" in str(caught[0])
    assert not Path(f"/proc/{pid}").exists()


class Events(dict[Any, Any]):
    """Events of any asset, in and out."""

    def __missing__(self, key: Any) -> Any:
        self[key] = SimpleNamespace(extra={}, partitions=[])
        self[key].add_partitions = self[key].partitions.append
        return self[key]


def announce(
    tmp_path: Path,
    announcement: assets.Announcement,
    metadata: dict[str, Any],
    earlier: list[dict[str, Any]] | None = None,
) -> Any:
    """Execute the announcement of an artifact's content; returns the event."""
    sample = Sample(tmp_path, **{announcement.step: "true"})
    measured = {announcement.output: {"artifacts": [{"metadata": metadata}]}}
    storage.write_json(str(sample.folder / announcement.step / "executor_output.json"), {"artifacts": measured})
    with sample.dag:
        announcement.follow(sample.tasks)
    (task,) = sample.tasks[announcement.step].downstream_list
    out = Events()
    events = [SimpleNamespace(extra=extra) for extra in earlier or []]
    task.execute(sample.context | {"inlet_events": {announcement.asset: events}, "outlet_events": out})
    return out[announcement.asset]


REQUEST = {"retrain": True, "key": "fraud-2025-06-30", "reason": "amounts"}
RETRAIN = {"date": "2025-06-30", "key": "fraud-2025-06-30", "reason": "amounts"}


def test_a_request_is_announced_for_its_day(tmp_path: Path) -> None:
    event = announce(tmp_path, assets.retrain("fraud"), REQUEST)

    assert event.extra == RETRAIN
    assert event.partitions == ["2025-06-30"]


def test_no_request_is_announced_when_monitoring_asks_for_nothing(tmp_path: Path) -> None:
    with pytest.raises(AirflowSkipException, match=r"no fraud/retrain of 2025-06-30"):
        announce(tmp_path, assets.retrain("fraud"), REQUEST | {"retrain": False})


def test_the_same_request_is_announced_once(tmp_path: Path) -> None:
    with pytest.raises(AirflowSkipException, match="announced before"):
        announce(tmp_path, assets.retrain("fraud"), REQUEST, [RETRAIN | {"date": "2025-06-29"}, RETRAIN])


def test_a_promoted_model_is_announced_and_a_kept_one_is_not(tmp_path: Path) -> None:
    decision = {"decision": "promoted", "model": "fraud", "version": 3, "sha256": "a", "reasons": []}

    assert announce(tmp_path, assets.model("fraud"), decision).extra["version"] == 3
    with pytest.raises(AirflowSkipException):
        announce(tmp_path, assets.model("fraud"), decision | {"decision": "kept"})


def test_a_day_whose_events_have_changed_is_announced_again(tmp_path: Path) -> None:
    before = [{"date": "2025-06-30", "sha256": "old"}]

    assert announce(tmp_path, assets.day("fraud"), {"sha256": "new"}, before).extra["sha256"] == "new"
    with pytest.raises(AirflowSkipException):
        announce(tmp_path, assets.day("fraud"), {"sha256": "old"}, before)


def test_a_run_of_another_use_case_announces_nothing(load: Load, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    usual = Path(configs.__file__).with_name("fraud.yaml").read_text()
    other.write_text(usual.replace("name: fraud", "name: other", 1))
    dag = load()["fraud_ingestion"]
    task = dag.get_task("announce_day")
    assert isinstance(task, assets.AnnounceOperator)

    for name, reason in (("fraud", "announced before"), (str(other), "what follows would run 'fraud'")):
        inside = of_run(dag, params={"date": "2025-06-30", "config": name})
        report = {"artifacts": {"events": {"artifacts": [{"metadata": {"sha256": "a"}}]}}}
        storage.write_json(f"{task.rendering.commands(inside).root}/ingestion/executor_output.json", report)
        seen = {task.announcement.asset: [SimpleNamespace(extra={"date": "2025-06-30", "sha256": "a"})]}
        with pytest.raises(AirflowSkipException, match=reason):
            task.execute(inside | {"inlet_events": seen})


def test_a_task_leads_to_the_report_of_its_run_and_to_the_version_it_has_made() -> None:
    settings = SimpleNamespace(reports="http://reports")
    links = {"root": "/runs/run", "model_page": "http://mlflow/#/models/fraud"}
    task = SimpleNamespace(links=links, rendering=SimpleNamespace(settings=settings), output_metadata={})

    assert REPORT.get_link(task, ti_key=None) == "http://reports/run/report.html"
    assert MODEL.get_link(task, ti_key=None) == "http://mlflow/#/models/fraud"
    task.output_metadata = {"version": 3}
    assert MODEL.get_link(task, ti_key=None) == "http://mlflow/#/models/fraud/versions/3"


def test_a_backfill_is_a_run_for_each_day_whose_model_nobody_uses(shipped: Shipped) -> None:
    dag = shipped()["fraud_backfill"]
    form = {"first": "2024-02-28", "last": "2024-03-01", "data": "s3://raw"}
    runs = backfill.days.function("fraud_training", **of_run(dag, params=form))

    assert [run["trigger_run_id"] for run in runs] == [f"backfill-2024-0{day}" for day in ("2-28", "2-29", "3-01")]
    assert runs[1]["conf"] == {
        "date": "2024-02-29", "data": "s3://raw", "config": "fraud", "device": "cpu", "target": "record-only"
    }  # fmt: skip
    for fields, refusal in (
        ({"last": "2024-02-27"}, "start again with the older day first"),
        ({"targt": "local"}, "conf.targt: unknown; allowed here: config, data, device, first, last"),
    ):
        with pytest.raises(AirflowFailException, match=refusal):
            backfill.days.function("fraud_training", **of_run(dag, params=form | fields))


def test_more_days_than_airflow_makes_tasks_of_one_are_left_to_a_further_backfill(shipped: Shipped) -> None:
    form = {"first": "2020-01-01", "data": "s3://raw", "config": "fraud", "device": "cpu"}

    def split(last: str) -> tuple[list[Any], list[Any]]:
        run = of_run(shipped()["fraud_backfill"], params=form | {"last": last})
        return backfill.days.function("fraud_training", **run), backfill.rest.function(**run)

    days, none = split("2022-10-20")
    most, rest = split("2022-10-21")

    assert (len(days), none) == (1024, [])
    assert (most, rest) == (days, [{"conf": form | {"first": "2022-10-21", "last": "2022-10-21"}}])


def test_nobody_follows_airflows_own_backfill(tmp_path: Path, shipped: Shipped) -> None:
    task = shipped()["fraud_ingestion"].get_task("announce_day")

    with pytest.raises(
        AirflowSkipException, match="no fraud/day of 2025-06-30: Airflow's backfill starts no other DAG"
    ):
        task.execute(of_run(shipped()["fraud_ingestion"], run_type="backfill", params={"date": "2025-06-30"}))


class _Mail(socketserver.StreamRequestHandler):
    """A mail server for one message."""

    def handle(self) -> None:
        self.wfile.write(b"220 here\r\n")
        for line in self.rfile:
            if line.upper().startswith(b"DATA"):
                self.wfile.write(b"354 go on\r\n")
                self.server.letter = b"".join(iter(self.rfile.readline, b".\r\n"))
            self.wfile.write(b"250 done\r\n")


def test_a_long_error_is_reported_without_its_middle(caplog: pytest.LogCaptureFixture) -> None:
    error = "\n".join(["exit code 1", *("x" * 100 for _ in range(1000)), "the reason"])
    ti = SimpleNamespace(dag_id="fraud_training", task_id="training", log_url="http://airflow/log")

    alerts.report_failure({"ti": ti, "dag_run": SimpleNamespace(run_id="one"), "exception": AirflowException(error)})

    (message,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert message.startswith("fraud_training: training failed in one: exit code 1\nx")
    assert "x\n...x" in message
    assert message.endswith("x\nthe reason\nhttp://airflow/log")
    assert 1500 < len(message) < 2000


def test_a_failure_is_told_by_mail(monkeypatch: pytest.MonkeyPatch) -> None:
    with socketserver.TCPServer(("127.0.0.1", 0), _Mail) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        extra = {"from_email": "airflow@example.com", "to": "ops@example.com", "disable_ssl": True, "disable_tls": True}
        host, port = server.server_address
        connection = {"conn_type": "smtp", "host": host, "port": port, "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_NIGHTSHIFT_EMAIL", json.dumps(connection))
        alerts.tell("fraud_training: training failed", "exit code 1: loss < 0")
        thread.join()

        letter = email.message_from_bytes(server.letter, policy=email.policy.default)
    assert (letter["from"], letter["to"]) == ("airflow@example.com", "ops@example.com")
    assert letter["subject"] == "fraud_training: training failed"
    assert "<pre>exit code 1: loss &lt; 0</pre>" in letter.get_body().get_content()


def kubeflow_run(load: Load, url: str) -> tuple[KubeflowRunOperator, dict[str, Any]]:
    dag = load(NIGHTSHIFT_ENVIRONMENT="aws", KFP_ENDPOINT=url)["fraud_monitoring"]
    inside = of_run(dag, "scheduled__1", partition_key="2025-06-30") | {"ti": SimpleNamespace(try_number=1)}
    task = dag.get_task("run")
    assert isinstance(task, KubeflowRunOperator)
    return task, inside


def test_a_run_on_kubeflow_is_submitted_once_and_waited_for(load: Load, kubeflow: Kubeflow) -> None:
    task, inside = kubeflow_run(load, kubeflow.url)
    for _ in range(2):
        with pytest.raises(TaskDeferred) as deferred:
            task.execute(inside)

    (body,) = kubeflow.bodies("/runs")
    assert body["display_name"] == "fraud-monitoring-2025-06-30-scheduled-1-1"
    assert body["runtime_config"]["parameters"]["date"] == "2025-06-30"
    assert body["runtime_config"]["parameters"]["state"]["kubeflow"]["endpoint"].startswith(
        "http://ml-pipeline.kubeflow"
    )
    assert body["service_account"] == "nightshift"
    path, arguments = deferred.value.trigger.serialize()
    assert path == "pipelines.engines.airflow.operators.kubeflow.KubeflowRunTrigger"
    assert arguments["run_id"] == kubeflow.runs[0].run_id
    assert task.operator_extra_links[0].get_link(task, ti_key=None).endswith(arguments["run_id"])


def test_the_trigger_outlasts_a_server_that_is_away_and_tells_the_runs_end(load: Load, kubeflow: Kubeflow) -> None:
    from nightshift_testkit.kubeflow import Failure

    task, inside = kubeflow_run(load, kubeflow.url)
    with pytest.raises(TaskDeferred) as deferred:
        task.execute(inside)
    kubeflow.states = ["RUNNING", "FAILED"]
    run_id = deferred.value.trigger.run_id
    kubeflow.failures = [Failure("GET", f"/runs/{run_id}", 503) for _ in range(5)]
    trigger = KubeflowRunTrigger(deferred.value.trigger.target, run_id, every=0.01)

    async def first() -> Any:
        return await anext(trigger.run())

    event = asyncio.run(first())
    assert event.payload == {"state": "FAILED"}
    with pytest.raises(AirflowException, match="ended as FAILED: http"):
        task.execute_complete(inside, event.payload, task.url)


def test_a_refusal_of_kubeflow_is_not_tried_again(load: Load, kubeflow: Kubeflow) -> None:
    kubeflow.token = "secret"
    task, inside = kubeflow_run(load, kubeflow.url)

    with pytest.raises(AirflowFailException, match="401"):
        task.execute(inside)


def test_the_report_is_written_after_a_failure_and_then_fails_too_without_another_message(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sample = Sample(tmp_path, first="true", reporting="true")
    report, states = sample.tasks["reporting"], {"first": "failed", "reporting": "running"}
    sample.context["dag_run"].dag_id = "sample"
    sample.context["ti"] = SimpleNamespace(get_task_states=lambda dag_id, run_ids: {run_ids[0]: states})

    assert (report.trigger_rule, sample.tasks["first"].trigger_rule) == ("all_done", "all_success")
    with pytest.raises(AirflowFailException, match="what failed is: first") as failure:
        report._post_execute_hook(sample.context, None)
    alerts.report_failure(sample.context | {"exception": failure.value})
    assert not caplog.records

    states["first"] = "success"
    report._post_execute_hook(sample.context, None)
