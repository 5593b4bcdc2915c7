"""The files of a deployment: Kubernetes' schemas and the kinds' own, the project's policies, what engines are told."""

import ast
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from infra.policies import environment
from infra.policies.findings import judge
from infra.policies.model import Environment
from infra.terraform import INFRA
from nightshift.costs.prices import read_machines
from nightshift.runtime.errors import UserError
from nightshift_perf.planning.serving.batching import RequestLength
from nightshift_perf.planning.serving.deployment.engines import ENGINES
from nightshift_perf.planning.serving.deployment.files import name_deployment, write_deployment
from nightshift_perf.planning.serving.deployment.manifests import ServingDeployment
from nightshift_perf.planning.serving.fleet import Demand, Objective, plan_fleets
from nightshift_perf.planning.serving.shapes import read_shape
from nightshift_testkit.cluster import security
from nightshift_testkit.cluster.cluster import CRDS
from nightshift_testkit.cluster.kinds import custom
from nightshift_testkit.cluster.validation import validate
from tests.pipelines.samples import called

Json = dict[str, Any]
engines = pytest.mark.parametrize("engine", ENGINES)
pytestmark = pytest.mark.slow
CUSTOM = ("InferencePool", "PodMonitor", "ScaledObject")


def objects(folder: Path) -> dict[str, Json]:
    """Kind -> object, of which there is one each but for config maps."""
    return {value["kind"]: value for value in environment.render(folder)}


def container(folder: Path) -> Json:
    (only,) = objects(folder)["Deployment"]["spec"]["template"]["spec"]["containers"]
    return dict(only)


def flags(folder: Path) -> dict[str, str]:
    """What the engine's command line says."""
    return dict(word.removeprefix("--").split("=", 1) for word in container(folder)["command"] if "=" in word)


@engines
def test_kubernetes_own_schema_takes_every_object(written: dict[str, Path], engine: str) -> None:
    kinds = objects(written[engine])
    for kind in ("Deployment", "PodDisruptionBudget", "PersistentVolumeClaim", "NetworkPolicy", "ConfigMap"):
        kubernetes_validate.validate(kinds[kind], kubernetes_validate.latest_version(), strict=True)


@engines
@pytest.mark.parametrize("kind", CUSTOM)
def test_the_kinds_own_definition_takes_every_object(written: dict[str, Path], engine: str, kind: str) -> None:
    value = objects(written[engine])[kind]
    group, _, version = value["apiVersion"].partition("/")
    path = CRDS / f"{kind.lower()}s.{group}.json"
    if not path.exists():
        pytest.skip(f"{path} is missing")
    (definition,) = [kind for kind in custom(json.loads(path.read_text())) if kind.version == version]
    validate(definition, value)


@engines
def test_the_projects_policies_have_nothing_against_it(
    written: dict[str, Path], engine: str, namespaces: list[Json]
) -> None:
    def findings(objects: list[Json]) -> set[str]:
        return set(judge(Environment("aws", "dev", (), tuple(objects), {}, INFRA, "us-east-1", "")))

    assert findings([*namespaces, *environment.render(written[engine])]) - findings(namespaces) == set()


@engines
def test_a_pod_may_do_nothing_but_serve(written: dict[str, Path], engine: str) -> None:
    kinds = objects(written[engine])
    pod = kinds["Deployment"]["spec"]["template"]["spec"]
    assert security.violations("restricted", pod) == []
    assert (
        pod["automountServiceAccountToken"] is False
        and container(written[engine])["securityContext"]["readOnlyRootFilesystem"]
    )
    assert kinds["NetworkPolicy"]["spec"]["egress"] == []
    image = container(written[engine])["image"]
    assert re.fullmatch(r"[\w./-]+:v?\d+\.\d+\.\w+", image)


@engines
def test_requests_are_routed_to_the_pods_that_are_scaled_and_watched(written: dict[str, Path], engine: str) -> None:
    kinds = {kind: value["spec"] for kind, value in objects(written[engine]).items() if "spec" in value}
    labels = kinds["Deployment"]["template"]["metadata"]["labels"]
    selectors = [kinds[kind]["selector"] for kind in ("InferencePool", "PodMonitor", "PodDisruptionBudget")]
    assert [*selectors, kinds["NetworkPolicy"]["podSelector"]] == [{"matchLabels": labels}] * 4
    (rule,) = kinds["HTTPRoute"]["rules"]
    assert [backend["name"] for backend in rule["backendRefs"]] == ["llama3-70b"]
    assert kinds["ScaledObject"]["scaleTargetRef"] == {"name": "llama3-70b"} and "replicas" not in kinds["Deployment"]
    queries = [trigger["metadata"]["query"] for trigger in kinds["ScaledObject"]["triggers"]]
    (pods,) = set(re.findall(r'pod=~"([^"]+)"', " ".join(queries)))
    assert re.fullmatch(pods, "llama3-70b-5d5c8f9b7-x2x4z") and not re.fullmatch(
        pods, "llama3-70b-chat-5d5c8f9b7-x2x4z"
    )
    assert all(ENGINES[engine].metrics.waiting in query for query in queries)


def test_the_engine_is_told_what_was_planned(written: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        called("perf", "plan", "--serve", "--model", "llama3-70b", "--gpu", "h100-80gb", "--rate", "15", "--json") == 0
    )
    fleet = next(row for row in json.loads(capsys.readouterr().out)["fleets"] if row["market"] == "on-demand")

    vllm, tensorrt = flags(written["vllm"]), flags(written["tensorrt-llm"])

    limits = container(written["vllm"])["resources"]["limits"]
    assert {vllm["tensor-parallel-size"], tensorrt["tp_size"], limits["nvidia.com/gpu"]} == {str(fleet["tensor"])}
    assert vllm["kv-cache-dtype"] == "fp8" and fleet["precision"] == "fp8"
    assert vllm["max-num-seqs"] == tensorrt["max_batch_size"] and int(vllm["max-num-seqs"]) > fleet["concurrency"]
    scaled = objects(written["vllm"])["ScaledObject"]["spec"]
    assert (scaled["maxReplicaCount"], scaled["fallback"]["replicas"]) == (fleet["replicas"] + 1, fleet["replicas"])
    assert scaled["triggers"][1]["metadata"]["threshold"] == str(fleet["concurrency"])
    assert (
        yaml.safe_load((written["tensorrt-llm"] / "tensorrt-llm.yaml").read_text())["kv_cache_config"]["dtype"] == "fp8"
    )


@engines
def test_the_script_that_quantizes_is_python_and_names_what_it_makes(written: dict[str, Path], engine: str) -> None:
    script = (written[engine] / "quantize.py").read_text()

    ast.parse(script)
    assert "FP8_D" in script  # FP8_DYNAMIC, FP8_DEFAULT_CFG


def test_weights_in_16_bits_need_no_script_and_another_engine_leaves_no_file_of_the_first(tmp_path: Path) -> None:
    words = ("--model", "llama3-8b", "--gpu", "h100-80gb", "--precision", "bf16", "--write", str(tmp_path))
    assert called("perf", "plan", "--serve", *words, "--engine", "tensorrt-llm") == 0
    assert called("perf", "plan", "--serve", *words) == 0

    assert {path.name for path in tmp_path.iterdir()} == {
        "dashboard.json", "engine.yaml", "kustomization.yaml", "monitoring.yaml", "routing.yaml", "scaling.yaml",
        "weights.yaml",
    }  # fmt: skip
    assert flags(tmp_path)["kv-cache-dtype"] == "auto"


@engines
def test_the_dashboard_shows_throughput_latency_gpus_and_tokens_per_dollar(
    written: dict[str, Path], engine: str
) -> None:
    board = json.loads((written[engine] / "dashboard.json").read_text())
    titles = [panel["title"] for panel in board["panels"]]
    assert {"Tokens a second", "Time to the first token", "GPUs active", "Tokens per dollar"} <= set(titles)
    (price,) = [variable["query"] for variable in board["templating"]["list"] if variable["name"] == "replica_dollars"]
    machine = read_machines()["p5.48xlarge"]
    gpus = int(container(written[engine])["resources"]["limits"]["nvidia.com/gpu"])
    assert float(price) == pytest.approx(machine.usd["on-demand"] / (machine.gpus // gpus), abs=0.01)
    assert len({tuple(panel["gridPos"].values()) for panel in board["panels"]}) == len(titles)


def test_the_longest_request_fits_in_the_cache_of_a_replica(tmp_path: Path) -> None:
    model = read_shape("llama3-70b")
    long = Demand(type(model)(**vars(model) | {"sequence": 10**7}), RequestLength(1024, 256), 1, Objective(2, 0.1))
    plan = plan_fleets(long, [read_machines()["p5.48xlarge"]]).plans[0]

    write_deployment(ServingDeployment("long", plan, ENGINES["vllm"]), tmp_path)

    assert int(flags(tmp_path)["max-model-len"]) == plan.replica.cache_tokens


@pytest.mark.parametrize(
    ("model", "name"),
    (
        ("llama3-70b", "llama3-70b"),
        ("models/Qwen3_4B.Instruct/config.json", "qwen3-4b-instruct"),
        ("models/Mistral-Nemo/", "mistral-nemo"),
    ),
)
def test_a_deployment_is_named_after_its_model(model: str, name: str) -> None:
    assert name_deployment(model) == name


def test_a_model_without_a_name_and_a_folder_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(UserError, match=r"--model is '/70b/config.json', which gives no name of a deployment"):
        name_deployment("/70b/config.json")
    with pytest.raises(UserError, match=r"--write is .*file: .*; name a folder that can be written"):
        called("perf", "plan", "--serve", "--model", "llama3-8b", "--write", str(tmp_path / "file"))


def test_the_folder_is_one_command(written: dict[str, Path]) -> None:
    header = (written["vllm"] / "kustomization.yaml").read_text().partition("apiVersion")[0]
    assert "The quota of nightshift needs room for" in header and "kubectl apply -k" in header
    done = subprocess.run(["kubectl", "kustomize", written["vllm"]], capture_output=True, text=True, check=True)
    assert {value["metadata"]["namespace"] for value in yaml.safe_load_all(done.stdout)} == {"nightshift"}
