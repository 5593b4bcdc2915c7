"""The DAGs' tasks beside the compiled pipelines they are made of."""

import json
from datetime import UTC, date, timedelta
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
from airflow.sdk.exceptions import AirflowFailException
from hypothesis import given
from hypothesis import strategies as st
from kubernetes import client

from nightshift.runtime.step import MESSAGE
from pipelines import arguments, ir
from pipelines.engines.airflow.operators.context import logical_date
from tests.dags.samples import Load, Shipped, changed, context, use_case

PIPELINES = ("ingestion", "monitoring", "training")
CLUSTERS = ("aws", "gcp")
EVERYWHERE = [(name, environment) for name in PIPELINES for environment in ("local", *CLUSTERS)]
ON_CLUSTERS = [(name, environment) for name in PIPELINES for environment in CLUSTERS]
RUN_ID = "manual__2026-01-02T03:04:05+00:00"


def tasks(shipped: Shipped, name: str, environment: str) -> list[tuple[Any, ir.PipelineTask, dict[str, Any]]]:
    """Each step's Airflow task, rendered, beside the compiled step and the context it was rendered in."""
    dag = shipped(environment)[f"fraud_{name}"]
    inside = context(dag, RUN_ID, params={"date": "2025-06-30"})
    steps = []
    for step in arguments.load_compiled(name, environment).tasks:
        task = dag.get_task(step.name).prepare_for_execution()
        task.render_template_fields(inside, dag.get_template_env())
        steps.append((task, step, inside))
    return steps


def pod(task: KubernetesPodOperator) -> dict[str, Any]:
    """What is sent to Kubernetes."""
    return client.ApiClient().sanitize_for_serialization(task.build_pod_request_obj(dry_run=True))


@pytest.mark.parametrize(("name", "environment"), EVERYWHERE)
def test_the_steps_and_their_edges_are_the_compiled_ones(name: str, environment: str, shipped: Shipped) -> None:
    dag = shipped(environment)[f"fraud_{name}"]
    steps = {task.task_id: set(task.upstream_task_ids) for task in dag.tasks if not task.task_id.startswith("announce")}

    assert steps == {step.name: set(step.needs) for step in arguments.load_compiled(name, environment).tasks}


@pytest.mark.parametrize(("name", "environment"), EVERYWHERE)
def test_a_steps_command_line_is_the_one_the_local_engine_would_run(
    name: str, environment: str, shipped: Shipped
) -> None:
    for task, step, inside in tasks(shipped, name, environment):
        argv = task.cmds if isinstance(task, KubernetesPodOperator) else task.argv

        assert argv == task.rendering.commands(inside).argv(step)
        assert argv[:2] == ["python", "-m"]
        assert not any("{{" in word for word in argv)
        executor_input = json.loads(argv[argv.index("--executor-input") + 1])
        folder = f"fraud-{name}-2025-06-30-manual-2026-01-02T03-04-05-00-00/{step.name}"
        assert executor_input["outputs"]["outputFile"].endswith(f"{folder}/executor_output.json")


@pytest.mark.parametrize(("name", "environment"), EVERYWHERE)
def test_retries_timeouts_and_pools_are_the_compiled_ones(name: str, environment: str, shipped: Shipped) -> None:
    for task, step, _ in tasks(shipped, name, environment):
        assert task.retries == step.retry.count
        assert task.retry_delay == timedelta(seconds=step.retry.seconds)
        assert task.retry_exponential_backoff == step.retry.factor
        deadline = step.kubernetes.get("activeDeadlineSeconds")
        counted = deadline and not isinstance(task, KubernetesPodOperator)  # a pod does not count waiting for a node
        assert task.execution_timeout == (timedelta(seconds=int(deadline)) if counted else None)
        assert task.pool == ("gpu" if "accelerator" in step.resources else "default_pool")


@pytest.mark.parametrize(("name", "environment"), ON_CLUSTERS)
def test_a_steps_pod_is_valid_and_gets_what_the_compiled_step_asks_for(
    name: str, environment: str, shipped: Shipped
) -> None:
    for task, step, _ in tasks(shipped, name, environment):
        manifest = pod(task)
        kubernetes_validate.validate(manifest, "1.34", strict=True)
        (container,) = manifest["spec"]["containers"]

        assert container["image"] == step.image
        variables = {item["name"]: item["value"] for item in container["env"] if "value" in item}
        assert variables == step.environment | {MESSAGE: "/dev/termination-log"}
        resources = step.resources
        gpus = {"nvidia.com/gpu": "1"} if "accelerator" in resources else {}
        limits = {"cpu": resources["resourceCpuLimit"], "memory": resources["resourceMemoryLimit"]} | gpus
        requests = {"cpu": resources["resourceCpuRequest"], "memory": resources["resourceMemoryRequest"]}
        assert container["resources"] == {"limits": limits, "requests": requests}
        assert manifest["spec"]["nodeSelector"] == step.kubernetes["nodeSelector"]["labels"]
        assert manifest["spec"]["tolerations"] == step.kubernetes.get("tolerations", [])
        assert str(manifest["spec"]["activeDeadlineSeconds"]) == step.kubernetes["activeDeadlineSeconds"]
        assert manifest["spec"].get("terminationGracePeriodSeconds") == (120 if gpus else None)
        assert not task.deferrable
        assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"


@pytest.mark.parametrize(("name", "environment"), ON_CLUSTERS)
def test_a_steps_pod_keeps_to_the_restricted_pod_security_standard(
    name: str, environment: str, shipped: Shipped
) -> None:
    for task, _, _ in tasks(shipped, name, environment):
        spec = pod(task)["spec"]
        (container,) = spec["containers"]

        assert spec["securityContext"] == {
            "runAsNonRoot": True,
            "runAsUser": 10001,
            "runAsGroup": 10001,
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        assert container["securityContext"] == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        assert (spec["serviceAccountName"], spec["automountServiceAccountToken"]) == ("nightshift", False)


@pytest.mark.parametrize("environment", CLUSTERS)
def test_the_pod_that_releases_alone_has_a_token_of_kubernetes_and_an_account_that_may(
    environment: str, load: Load, tmp_path: Path
) -> None:
    gradual = changed(tmp_path, release={"gradual": True})
    dag = load(use_case(tmp_path, gradual), NIGHTSHIFT_ENVIRONMENT=environment)["fraud_release"]
    pods = {task.task_id: pod(task)["spec"] for task in dag.tasks if isinstance(task, KubernetesPodOperator)}

    accounts = {name: (spec["serviceAccountName"], spec["automountServiceAccountToken"]) for name, spec in pods.items()}
    assert accounts == dict.fromkeys(pods, ("nightshift", False)) | {"release": ("nightshift-release", True)}


@pytest.mark.parametrize(("name", "environment"), ON_CLUSTERS)
def test_a_pod_has_the_volumes_and_secrets_of_the_compiled_step(name: str, environment: str, shipped: Shipped) -> None:
    for task, step, _ in tasks(shipped, name, environment):
        spec = pod(task)["spec"]
        (container,) = spec["containers"]
        wanted = step.kubernetes

        claims = {item["constant"]: item["mountPath"] for item in wanted["pvcMount"]}
        scratch = {item["volumeName"]: item["mountPath"] for item in wanted.get("emptyDirMounts", [])}
        assert {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]} == claims | scratch
        assert {volume["name"] for volume in spec["volumes"]} == set(claims | scratch)
        secrets = {
            key["envVar"]: {"name": item["secretName"], "key": key["secretKey"], "optional": item["optional"]}
            for item in wanted.get("secretAsEnv", [])
            for key in item["keyToEnv"]
        }
        assert {e["name"]: e["valueFrom"]["secretKeyRef"] for e in container["env"] if "valueFrom" in e} == secrets


days = st.dates(date(2020, 1, 1), date(2030, 1, 1))
moments = st.datetimes(timezones=st.timezones())


class Run:
    """The fields of a DAG run that tell its day."""

    def __init__(self, logical_date: Any = None, run_after: Any = None, partition_key: str | None = None) -> None:
        self.logical_date, self.run_after, self.partition_key = logical_date, run_after, partition_key


@given(day=days, partition=days, moment=moments)
def test_the_forms_day_goes_before_the_assets(day: date, partition: date, moment: Any) -> None:
    run = Run(moment, moment, str(partition))

    assert logical_date({"params": {"date": str(day)}, "dag_run": run}) == str(day)
    assert logical_date({"params": {"date": None}, "dag_run": run}) == str(partition)


@given(moment=moments, later=st.timedeltas(timedelta(0), timedelta(days=3)))
def test_by_the_clock_the_day_is_the_last_complete_utc_day_however_late_the_run_is(
    moment: Any, later: timedelta
) -> None:
    day = date.fromisoformat(logical_date({"params": {}, "dag_run": Run(moment, moment + later)}))

    assert day + timedelta(days=1) == moment.astimezone(UTC).date()
    assert logical_date({"params": {}, "dag_run": Run(None, moment)}) == str(day)


def test_a_value_that_is_not_allowed_is_not_tried_again(shipped: Shipped) -> None:
    dag = shipped()["fraud_training"]
    task = dag.get_task("ingestion").prepare_for_execution()

    with pytest.raises(AirflowFailException, match="config 'fruad' does not exist"):
        task.render_template_fields(context(dag, params={"config": "fruad"}), dag.get_template_env())


def test_airflows_own_backfill_puts_no_model_in_use(shipped: Shipped) -> None:
    dag = shipped()["fraud_training"]
    rendering = dag.get_task("deployment").rendering

    assert rendering.commands(context(dag, params={"date": "2025-06-30"})).arguments["state"]["target"] == "local"
    backfill = context(dag, run_type="backfill", params={"date": "2025-06-30"})
    assert rendering.commands(backfill).arguments["state"]["target"] == "record-only"


def test_runs_of_the_same_day_have_folders_of_their_own(shipped: Shipped) -> None:
    dag = shipped()["fraud_training"]
    rendering = dag.get_task("ingestion").rendering
    roots = {
        rendering.commands(context(dag, run_id)).root for run_id in (RUN_ID, "asset_triggered__2026_x", "scheduled/1")
    }

    assert len(roots) == 3
    assert all(Path(root).parent.name == "runs" for root in roots)
