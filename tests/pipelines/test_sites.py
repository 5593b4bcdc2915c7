"""What the compiled pipelines ask of each environment, read once by KFP's own schemas and once by `ir.py`."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from kfp import components
from kfp.kubernetes.kubernetes_executor_config_pb2 import KubernetesExecutorConfig
from kfp.pipeline_spec.pipeline_spec_pb2 import PipelineSpec, PlatformSpec

from components.release.targets.factory import TOKEN
from nightshift.cluster import ACCOUNT
from nightshift.config.notify import Notify, Receiver
from nightshift.contracts.state import ROOTS
from nightshift.costs.prices import MACHINE, find_price
from nightshift.runtime.errors import UserError
from nightshift.runtime.telemetry import GATEWAY, PIPELINE
from pipelines import arguments, ir
from pipelines.compiling import PIPELINES
from pipelines.engines.local import runs
from pipelines.engines.local.run import Run
from pipelines.environments import GPU, GRACE, LOCAL, SITES, STATE, Placement, Role, local, site

CLUSTERS = [name for name in SITES if name != LOCAL.name]
WITH_FILES = [name for name in CLUSTERS if not name.endswith("-try")]
HEAVY = {"features", "training", "profiling"}
STARTING = {"launching", "retraining"}
EVERYWHERE = list(itertools.product(PIPELINES, SITES))
ON_CLUSTERS = list(itertools.product(PIPELINES, CLUSTERS))


def spec(name: str, environment: str) -> PipelineSpec:
    """The first document as KFP's own message, which refuses unknown fields."""
    return json_format.ParseDict(arguments.load_compiled(name, environment).documents[0], PipelineSpec())


def kubernetes(name: str, environment: str) -> dict[str, KubernetesExecutorConfig]:
    """The second document as KFP's own messages: step -> what its pod gets."""
    platform = json_format.ParseDict(arguments.load_compiled(name, environment).documents[1], PlatformSpec())
    executors = json_format.MessageToDict(platform)["platforms"]["kubernetes"]["deploymentSpec"]["executors"]
    return {
        label.removeprefix("exec-"): json_format.ParseDict(config, KubernetesExecutorConfig())
        for label, config in executors.items()
    }


def placement(task: str, environment: str) -> Placement:
    named = (
        {"release": Role.RELEASE, "reporting": Role.REPORTING, "training": Role.TRAINING}
        | dict.fromkeys(HEAVY - {"training"}, Role.GPU)
        | dict.fromkeys(STARTING, Role.LAUNCHER)
    )
    role = named.get(task, Role.LIGHT)
    return SITES[environment].placements[role]


@pytest.mark.parametrize(("name", "environment"), EVERYWHERE)
def test_kfp_loads_the_compiled_pipeline(name: str, environment: str) -> None:
    text = arguments.load_compiled(name, environment).yaml.decode()

    assert components.load_component_from_text(text).pipeline_spec == spec(name, environment)


@pytest.mark.parametrize(("name", "environment"), EVERYWHERE)
def test_the_engines_are_given_what_kubeflow_reads(name: str, environment: str) -> None:
    read = spec(name, environment)
    executors = json_format.MessageToDict(read.deployment_spec)["executors"]
    tasks = {task.name: task for task in arguments.load_compiled(name, environment).tasks}

    assert set(tasks) == set(read.root.dag.tasks)
    for key, task in read.root.dag.tasks.items():
        container = executors[read.components[task.component_ref.name].executor_label]["container"]
        loaded = tasks[key]
        assert [*loaded.command] == [*container["command"], *container["args"]]
        assert (loaded.image, loaded.resources) == (container["image"], container["resources"])
        assert loaded.needs == tuple(task.dependent_tasks)
        assert loaded.cached == task.caching_options.enable_cache
        retry = task.retry_policy
        assert loaded.retry.count == retry.max_retry_count
        if loaded.retry.count:
            assert (loaded.retry.seconds, loaded.retry.factor) == (retry.backoff_duration.seconds, retry.backoff_factor)
        sources = {input_: value.task_output_artifact for input_, value in task.inputs.artifacts.items()}
        assert loaded.artifacts == {
            input_: (ir.ArtifactRef(source.producer_task, source.output_artifact_key),)
            for input_, source in sources.items()
        }


@pytest.mark.parametrize(("name", "environment"), ON_CLUSTERS)
def test_environments_differ_in_the_place_of_a_step_alone(name: str, environment: str) -> None:
    def graph(tasks: tuple[ir.PipelineTask, ...]) -> list[Any]:
        return [(t.name, t.command, t.parameters, t.artifacts, t.outputs, t.needs, t.cached) for t in tasks]

    assert graph(arguments.load_compiled(name, environment).tasks) == graph(arguments.load_compiled(name).tasks)


@pytest.mark.parametrize(("name", "environment"), EVERYWHERE)
def test_a_step_gets_the_cpu_the_memory_the_image_and_the_retries_of_its_kind(name: str, environment: str) -> None:
    for task in arguments.load_compiled(name, environment).tasks:
        wanted = placement(task.name, environment)
        requests = {key: value for key, value in task.resources.items() if key.startswith("resource")}
        limits = {"resourceCpuLimit": wanted.cpu_limit} if wanted.cpu_limit else {}
        assert requests == limits | {
            "resourceCpuRequest": wanted.cpu_request,
            "resourceMemoryRequest": wanted.memory_request,
            "resourceMemoryLimit": wanted.memory_limit,
        }
        accelerator = task.resources.get("accelerator", {"resourceType": GPU, "resourceCount": "0"})
        assert (accelerator["resourceType"], int(accelerator["resourceCount"])) == (GPU, wanted.gpus)
        assert task.image == wanted.image
        assert task.retry == wanted.retry


@pytest.mark.parametrize(("name", "environment"), ON_CLUSTERS)
def test_a_pod_gets_its_labels_nodes_taints_volumes_secrets_and_deadline(name: str, environment: str) -> None:
    pods = kubernetes(name, environment)
    assert set(pods) == set(spec(name, environment).root.dag.tasks)
    for task, pod in pods.items():
        wanted = placement(task, environment)
        assert dict(pod.pod_metadata.labels) == wanted.labels
        noted = {GRACE: str(wanted.grace or ""), ACCOUNT: wanted.account}
        assert dict(pod.pod_metadata.annotations) == {name: value for name, value in noted.items() if value}
        assert dict(pod.node_selector.labels) == wanted.nodes
        assert [(t.key, t.value, t.operator, t.effect) for t in pod.tolerations] == [
            (taint.key, taint.value, "Equal", "NoSchedule") for taint in wanted.tolerations
        ]
        assert [(m.constant, m.mount_path) for m in pod.pvc_mount] == [(v.claim, v.path) for v in wanted.volumes]
        assert [
            (s.secret_name, {pair.secret_key: pair.env_var for pair in s.key_to_env}, s.optional)
            for s in pod.secret_as_env
        ] == [(secret.name, secret.keys, secret.is_optional) for secret in wanted.secrets]
        assert pod.active_deadline_seconds == wanted.timeout
        shared = [(m.mount_path, m.medium, m.size_limit) for m in pod.empty_dir_mounts]
        assert shared == ([("/dev/shm", "Memory", wanted.shared_memory)] if wanted.shared_memory else [])


@pytest.mark.parametrize(("name", "environment"), ON_CLUSTERS)
def test_steps_that_compute_on_a_gpu_and_no_others_ask_for_one(name: str, environment: str) -> None:
    pipeline = arguments.load_compiled(name, environment)
    tasks, device = pipeline.tasks, pipeline.parameters.get("device")
    asking = {task.name for task in tasks if "accelerator" in task.resources}

    assert asking == {task.name for task in tasks} & HEAVY
    assert asking == {task.name for task in tasks if "tolerations" in task.kubernetes}
    assert asking == {task.name for task in tasks if "/rapids:" in task.image}
    assert device is None or device.default == "cuda"


@pytest.mark.parametrize("environment", SITES)
def test_the_pods_of_steps_that_start_runs_and_no_others_are_given_a_token_on_clusters(environment: str) -> None:
    tasks = {task.name: task for name in PIPELINES for task in arguments.load_compiled(name, environment).tasks}
    labels = {name: task.kubernetes.get("podMetadata", {}).get("labels", {}) for name, task in tasks.items()}
    labeled = {name for name, own in labels.items() if "access-ml-pipeline" in own}

    assert labeled == (STARTING if environment in CLUSTERS else set())


@pytest.mark.slow
@pytest.mark.parametrize("environment", CLUSTERS)
def test_the_step_that_changes_served_models_and_no_other_has_an_account_that_may(environment: str) -> None:
    tasks = {task.name: task for name in PIPELINES for task in arguments.load_compiled(name, environment).tasks}
    noted = {name: task.kubernetes.get("podMetadata", {}).get("annotations", {}) for name, task in tasks.items()}

    assert {name for name, options in noted.items() if ACCOUNT in options} == {"release"}


@pytest.mark.parametrize("environment", CLUSTERS)
def test_steps_that_may_lose_their_node_are_tried_again_more_often(environment: str) -> None:
    tasks = arguments.load_compiled("training", environment).tasks
    spot = {task.retry.count for task in tasks if len(task.kubernetes.get("tolerations", [])) > 1}
    steady = {task.retry.count for task in tasks if "tolerations" not in task.kubernetes}

    assert min(spot) > max(steady) > 0


@pytest.mark.parametrize("environment", CLUSTERS)
def test_a_cluster_needs_no_more_than_the_use_case_the_date_the_data_and_what_to_start(
    environment: str,
) -> None:
    starting = {"nightly": {"pipeline"}}
    for name in PIPELINES:
        parameters = arguments.load_compiled(name, environment).parameters
        usual = {"config", "date", "data"} & set(parameters)
        needed = {key for key, value in parameters.items() if value.default is None}
        assert needed == usual | starting.get(name, set())


@pytest.mark.parametrize("environment", CLUSTERS)
def test_no_secret_is_written_into_a_compiled_pipeline(environment: str) -> None:
    for task in arguments.load_compiled("training", environment).tasks:
        assert set(task.environment) <= {GATEWAY, MACHINE, PIPELINE}


@pytest.mark.parametrize("environment", CLUSTERS)
def test_every_step_on_a_cluster_is_told_a_machine_that_has_a_price(environment: str) -> None:
    named = {task.environment[MACHINE] for task in arguments.load_compiled("training", environment).tasks}
    assert len(named) == 2
    assert all(find_price(name, {}) for name in named)


@pytest.mark.parametrize(("name", "environment"), EVERYWHERE)
def test_every_step_is_told_where_its_metrics_go_and_whose_they_are(name: str, environment: str) -> None:
    for task in arguments.load_compiled(name, environment).tasks:
        assert task.environment == {**placement(task.name, environment).environment, PIPELINE: name}
    assert (GATEWAY in placement("training", environment).environment) == (environment in WITH_FILES)


@pytest.mark.parametrize("environment", CLUSTERS)
def test_every_step_on_a_cluster_is_told_who_observes_whoever_places_it(
    environment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    variables = {"OPENLINEAGE_URL": "http://marquez:5000", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("OPENLINEAGE_API_KEY", "secret")

    for task in arguments.load_compiled("training", environment).tasks:
        assert variables.items() <= task.environment.items()
        assert "OPENLINEAGE_API_KEY" not in task.environment


def test_an_observers_login_is_not_written_into_a_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENLINEAGE_URL", "http://me:secret@marquez:5000")

    with pytest.raises(UserError, match="OPENLINEAGE_URL holds a login"):
        site("aws")


def test_a_local_run_says_that_one_process_ignores_a_layout_of_several(tmp_path: Path) -> None:
    def ignored(**trainer: object) -> list[str]:
        config = {"name": "tales", "task": {"trainer": trainer}}
        run = Run(arguments.load_compiled("training", "local"), {"config": config}, tmp_path / "run")
        run.record()
        lines: list[str] = json.loads((run.folder / "run.json").read_text())["ignored"]
        return [line for line in lines if "task.trainer" in line]

    (line,) = ignored(shard=2, pipeline=2, schedule="interleaved", checkpoint_seconds=9)
    assert "task.trainer {shard: 2, pipeline: 2, schedule: interleaved}, since its processes is not set" in line
    assert ignored(checkpoint_seconds=9) == ignored(shard=2, processes=2) == []


def test_a_local_run_says_what_of_a_clusters_pipeline_it_ignores(tmp_path: Path) -> None:
    run = runs.new(arguments.load_compiled("training", "aws"), {}, local(tmp_path))

    run.record()

    lines = json.loads((run.folder / "run.json").read_text())["ignored"]
    (training,) = [line for line in lines if line.startswith("training: ")]
    for option in ("accelerator", "nodeSelector", "tolerations", "pvcMount", "emptyDirMounts", "activeDeadlineSeconds"):
        assert option in training


def test_an_unknown_environment_is_refused_by_name() -> None:
    with pytest.raises(UserError, match="'asw' is none of: local, aws, gcp, aws-try, gcp-try"):
        site("asw")


@pytest.mark.parametrize("environment", CLUSTERS)
def test_only_the_step_that_asks_served_models_has_their_token(environment: str) -> None:
    holders = {
        role
        for role, placement in SITES[environment].placements.items()
        if TOKEN in {variable for secret in placement.secrets for variable in secret.keys.values()}
    }
    assert holders == {Role.RELEASE}


@pytest.mark.parametrize("environment", CLUSTERS)
def test_only_the_step_that_notifies_has_the_receivers_urls_and_starts_without_them(environment: str) -> None:
    secrets = {role: placement.secrets for role, placement in SITES[environment].placements.items()}
    holders = {role: secret for role in secrets for secret in secrets[role] if secret.name == "nightshift-notify"}
    assert set(holders) == {Role.REPORTING}
    assert holders[Role.REPORTING].is_optional
    config = Notify(receivers=[Receiver(variable=variable) for variable in holders[Role.REPORTING].keys.values()])
    assert len(config.receivers) == 4


@pytest.mark.parametrize("environment", sorted(set(CLUSTERS) - set(WITH_FILES)))
def test_the_bucket_that_was_made_holds_all_the_state_but_the_registry(
    environment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STATE, "s3://made/state")

    state, example = (cluster.parameters["state"] for cluster in (site(environment), SITES[environment]))

    assert {name for name in ROOTS if state[name] == f"s3://made/state/{name}"} == set(ROOTS) - {"registry"}
    assert state["registry"] == example["registry"] == "http://mlflow.nightshift:5000"
    assert site(LOCAL.name) == LOCAL
