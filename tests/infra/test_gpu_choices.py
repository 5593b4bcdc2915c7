"""The choices about GPUs of the answers: off until they are chosen, and what each of them comes to."""

import functools
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from components.training import trainjob
from infra.cloud import answers as questions
from infra.cloud import core, gpu, rendering
from infra.cloud.answers import EnvironmentAnswers
from infra.cloud.rendering import Infrastructure
from infra.cluster import core as cluster
from infra.terraform import INFRA
from nightshift.models.neural import collectives
from nightshift.runtime.errors import UserError
from nightshift_testkit.cluster import kinds, security
from nightshift_testkit.cluster.cluster import CRDS
from nightshift_testkit.cluster.validation import validate
from pipelines.environments import GPU, SITES, Role
from tests.infra import kustomize
from tests.infra.charts import CHARTS, FOLDER, HELM, NOT_AT_HAND, REAL, Json, real, values

MADE = Infrastructure(
    registry="registry.test/nightshift",
    signing_key="awskms:///alias/nightshift-images",
    store="s3://store",
    models="s3://store/mlflow",
    state="",
    volume=[{"op": "replace", "path": "/spec/capacity/storage", "value": "4800Gi"}],
    node_role="nightshift-dev-nodes",
    efa_interfaces=32,
    gpu_pools={"l4": "on_demand", "l4-spot": "spot", "a100-flex": "flex_start", "a100-kept": "reserved"},
)
DIGESTS = {"rapids": "sha256:" + "0" * 64}
ALL = {
    "aws": {
        "kueue": True,
        "provisioning": "karpenter",
        "fallback": ["spot", "reservation"],
        "node_repair": True,
        "sharing": "time-slicing",
        "fabric": "efa",
        "preload_images": True,
    },
    "gcp": {
        "kueue": True,
        "provisioning": "compute-class",
        "fallback": ["reservation", "flex-start", "spot", "on-demand"],
        "sharing": "mig",
        "fabric": "gib",
        "preload_images": True,
    },
}
Rendered = Callable[[str], dict[str, list[Json]]]
each_cloud = pytest.mark.parametrize("cloud", ALL)
with_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on PATH: nothing was built")
with_facts = pytest.mark.skipif(not REAL.exists(), reason="needs the facts of the charts in ../shared/charts")


def choose(cloud: str, **choices: Any) -> EnvironmentAnswers:
    """The answers of dev with other choices about GPUs, and all others off."""
    shipped = questions.read(cloud, "dev").model_dump(mode="json")
    return questions.parse(yaml.safe_dump(shipped | {"gpu": choices}).encode(), f"{cloud}-dev.yaml")


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Rendered:
    """Gives the objects that are rendered by overlay, for a cloud on which everything is chosen."""

    @functools.cache
    def render(cloud: str) -> dict[str, list[Json]]:
        folder = tmp_path_factory.mktemp(cloud)
        for name, text in rendering.render(choose(cloud, **ALL[cloud]), MADE, DIGESTS, folder).items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        overlays = sorted(path.parent for path in folder.rglob("kustomization.yaml"))
        return {path.relative_to(folder).as_posix(): kustomize.built(path) for path in overlays}

    return render


def named(objects: list[Json], kind: str, name: str) -> Json:
    (value,) = (one for one in objects if (one["kind"], one["metadata"]["name"]) == (kind, name))
    return value


def queue_objects(kind: str) -> list[Json]:
    objects = yaml.safe_load_all((FOLDER / "kueue" / "queue.yaml").read_text())
    return [value for value in objects if value["kind"] == kind]


def installed(answers: EnvironmentAnswers) -> str:
    return "\n".join(core.install(CHARTS, answers, MADE, DIGESTS))


@each_cloud
def test_nothing_is_installed_or_asked_of_terraform_that_nobody_has_chosen(cloud: str, tmp_path: Path) -> None:
    answers = choose(cloud)
    commands, files = installed(answers), rendering.render(answers, MADE, DIGESTS, tmp_path)

    assert gpu.name_choices(answers.gpu) == frozenset()
    assert not re.search("kueue|karpenter|efa-k8s|compute-class|values/[a-z-]+/", commands)
    assert set(files) == {"kustomization.yaml", "namespaces/kustomization.yaml"}
    assert yaml.safe_load(files["kustomization.yaml"])["components"] == []
    assert not any(value for value in gpu.set_variables(answers).values() if value != "none")


@pytest.mark.parametrize("row", [row for row in CHARTS if "choice" in row], ids=lambda row: row["name"])
def test_a_chart_with_a_choice_is_installed_where_it_is_chosen(row: Json) -> None:
    for cloud in row["clouds"]:
        without, chosen = (cluster.install(CHARTS, cloud, "c", choices) for choices in (set[str](), {row["choice"]}))
        added = [command for command in chosen if command not in without]
        assert added[0].startswith(f"helm upgrade --install {row['name']} ")
        assert added[1:] == row.get("after", [])


@pytest.mark.parametrize("row", [row for row in CHARTS if "variants" in row], ids=lambda row: row["name"])
def test_a_choice_adds_its_values_to_a_chart(row: Json) -> None:
    always = {row["choice"]} if "choice" in row else set()
    for choice in row["variants"]:
        without, chosen = ("\n".join(cluster.install(CHARTS, "aws", "c", always | more)) for more in (set(), {choice}))
        file = f"--values infra/cluster/values/{choice}/{row['name']}.yaml"
        assert file not in without and f"{row['name']}.yaml {file}" in chosen
        assert values(row["name"], choice)


def test_every_folder_of_values_is_a_choice_that_somebody_can_make() -> None:
    names = set().union(*(gpu.name_choices(choose(cloud, **choices).gpu) for cloud, choices in ALL.items()))
    folders = {path.name for path in (FOLDER / "values").iterdir() if path.is_dir()}

    assert folders == {choice for row in CHARTS for choice in row.get("variants", [])}
    assert folders | {row["choice"] for row in CHARTS if "choice" in row} <= names


@with_facts
def test_only_charts_without_facts_are_left_out_of_the_comparison_with_the_charts() -> None:
    assert {row["name"] for row in CHARTS if "chart" in row} - {row["name"] for row in HELM} == NOT_AT_HAND
    assert all(real(name, "Chart.yaml") is None for name in NOT_AT_HAND)


@each_cloud
def test_the_variables_are_ones_that_terraform_has(cloud: str) -> None:
    known = re.findall(r'^variable "(\w+)"', (INFRA / cloud / "variables.tf").read_text(), re.MULTILINE)

    assert set(gpu.set_variables(choose(cloud, **ALL[cloud]))) <= set(known)


@pytest.mark.parametrize(
    ("cloud", "choice", "value"),
    [("aws", "sharing", "mig"), ("aws", "provisioning", "compute-class"), ("gcp", "fabric", "efa")],
)
def test_a_choice_that_a_cloud_does_not_have_is_refused(cloud: str, choice: str, value: str) -> None:
    with pytest.raises(UserError, match=f"gpu: {value} is available on"):
        choose(cloud, **{choice: value})


def test_the_smallest_cluster_has_none_of_the_choices() -> None:
    shipped = questions.read("aws", "try").model_dump(mode="json")

    with pytest.raises(UserError, match="gpu: size try has none of these choices"):
        questions.parse(yaml.safe_dump(shipped | {"gpu": {"kueue": True}}).encode(), "aws-try.yaml")


# Kueue


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_steps_with_gpus_wait_in_a_queue_that_is_there_and_others_in_none(cloud: str) -> None:
    (queue,), classes = queue_objects("LocalQueue"), queue_objects("WorkloadPriorityClass")
    named_classes = {value["metadata"]["name"]: value["value"] for value in classes}
    placements = SITES[cloud].placements
    queued = {role: one.labels for role, one in placements.items() if "kueue.x-k8s.io/queue-name" in one.labels}

    assert set(queued) == {role for role, placement in placements.items() if placement.gpus}
    assert {labels["kueue.x-k8s.io/queue-name"] for labels in queued.values()} == {queue["metadata"]["name"]}
    priorities = {role: named_classes[labels["kueue.x-k8s.io/priority-class"]] for role, labels in queued.items()}
    assert priorities[Role.GPU] > priorities[Role.TRAINING]


def test_a_trainjob_waits_in_the_queue_as_a_training_does() -> None:
    labels = trainjob.TrainJobWork((), 2).body["metadata"]["labels"]

    assert labels == dict(SITES["aws"].placements[Role.TRAINING].labels)


def test_the_queue_leads_to_gpu_nodes_and_admits_as_many_gpus_as_the_larger_prod_has() -> None:
    (queue,), (flavor,), (local,) = map(queue_objects, ("ClusterQueue", "ResourceFlavor", "LocalQueue"))
    (group,) = queue["spec"]["resourceGroups"]
    (quota,) = group["flavors"][0]["resources"]
    pools = re.findall(r"max +?= (\d+)", (INFRA / "aws" / "prod.tfvars").read_text().partition("gpu_pools")[2])

    assert local["spec"]["clusterQueue"] == queue["metadata"]["name"]
    namespaces = queue["spec"]["namespaceSelector"]["matchLabels"]
    assert namespaces == {"kubernetes.io/metadata.name": local["metadata"]["namespace"]}
    assert [one["name"] for one in group["flavors"]] == [flavor["metadata"]["name"]]
    assert flavor["spec"]["nodeLabels"].items() <= SITES["aws"].placements[Role.GPU].nodes.items()
    assert group["coveredResources"] == [quota["name"]] == [GPU]
    spot, on_demand, fabric = map(int, pools)
    assert int(quota["nominalQuota"]) == spot + on_demand + 8 * fabric


def test_kueue_watches_steps_and_trainjobs_of_their_namespace_and_gives_up_before_a_step_does() -> None:
    configuration = yaml.safe_load(values("kueue")["managerConfig"]["controllerManagerConfigYaml"])
    hours = int(configuration["waitForPodsReady"]["timeout"].removesuffix("h"))

    assert {"pod", "trainer.kubeflow.org/trainjob"} <= set(configuration["integrations"]["frameworks"])
    assert configuration["managedJobsNamespaceSelector"]["matchLabels"] == {"kubernetes.io/metadata.name": "kubeflow"}
    assert hours * 3600 < SITES["aws"].placements[Role.GPU].timeout


@with_kubectl
@each_cloud
def test_with_kueue_no_quota_refuses_a_step_and_claims_are_still_counted(cloud: str, rendered: Rendered) -> None:
    refusing = yaml.safe_load((FOLDER / "namespaces" / "kubeflow" / "quota.yaml").read_text())["spec"]["hard"]
    waiting = named(rendered(cloud)["namespaces"], "ResourceQuota", "runs")["spec"]["hard"]

    assert f"requests.{GPU}" in refusing
    assert waiting == {"persistentvolumeclaims": refusing["persistentvolumeclaims"]}


# the order in which nodes are tried


@with_kubectl
def test_karpenter_tries_its_pools_in_the_order_of_the_answers_and_no_other(
    rendered: Rendered,
) -> None:
    objects = rendered("aws")["karpenter"]
    weights = {value["metadata"]["name"]: value["spec"]["weight"] for value in objects if value["kind"] == "NodePool"}

    assert sorted(weights, key=weights.__getitem__, reverse=True) == ["gpu-spot", "gpu-reserved"]
    assert all(1 <= weight <= 100 for weight in weights.values())
    nodes = named(objects, "EC2NodeClass", "gpu")["spec"]
    assert nodes["role"] == MADE.node_role
    assert yaml.safe_load(nodes["userData"])["spec"] == {"featureGates": {"FastImagePull": True}}


@pytest.mark.parametrize("order", [["reservation", "on-demand"], ["on-demand", "spot", "reservation"], ["spot"]])
def test_a_pool_is_as_heavy_as_its_capacity_stands_early_in_the_order(order: list[str]) -> None:
    weights = {pool: weight for pool, weight in gpu.weigh_pools(choose("aws", fallback=order).gpu).items() if weight}
    names = {pool: kind for kind, pool in gpu.KARPENTERS_POOLS.items()}

    assert [names[pool] for pool in sorted(weights, key=weights.__getitem__, reverse=True)] == order


@with_facts
@with_kubectl
def test_karpenters_own_schema_takes_the_nodes(rendered: Rendered) -> None:
    for value in rendered("aws")["karpenter"]:
        validate(kind_of(value), value)


@functools.cache
def known_kinds() -> dict[tuple[str, str], kinds.ResourceKind]:
    """The kinds of the CustomResourceDefinitions that are at hand."""
    known = [kind for definition in kinds.definitions(CRDS) for kind in kinds.custom(definition)]
    return {(kind.api_version, kind.name): kind for kind in known}


def kind_of(value: Json) -> kinds.ResourceKind:
    return known_kinds()[value["apiVersion"], value["kind"]]


def test_gke_tries_general_nodes_and_then_the_pools_in_the_order_of_the_answers(tmp_path: Path) -> None:
    files = rendering.render(choose("gcp", **ALL["gcp"]), MADE, DIGESTS, tmp_path)
    spec = yaml.safe_load(files[rendering.COMPUTE_CLASS])["spec"]

    tried = [rule["nodepools"] for rule in spec["priorities"]]
    assert tried == [["general"], ["a100-kept"], ["a100-flex"], ["l4-spot"], ["l4"]]
    assert spec["activeMigration"] == {"optimizeRulePriority": False}


def test_every_capacity_of_googles_pools_has_a_place_in_the_order() -> None:
    text = (INFRA / "gcp" / "modules" / "gpu_pools" / "variables.tf").read_text()
    known = re.search(r"contains\(\[(.*)\], pool.capacity\)", text)

    assert known and set(json.loads(f"[{known[1]}]")) == set(gpu.GOOGLES_CAPACITIES.values())


# sharing


def test_the_device_plugin_divides_a_gpu_as_terraform_counts_and_only_where_a_node_says_so() -> None:
    module = (INFRA / "aws" / "modules" / "node_pool" / "main.tf").read_text()
    shares = re.search(r'sharing == "(.*)" \? (\d+) : 1', module)
    config = values("nvidia-device-plugin", "time-slicing")["config"]
    assert shares
    (resource,) = yaml.safe_load(config["map"][shares[1]])["sharing"]["timeSlicing"]["resources"]

    assert resource == {"name": GPU, "replicas": int(shares[2])}
    assert "sharing" not in yaml.safe_load(config["map"][config["default"]])
    assert '"nvidia.com/device-plugin.config" = var.sharing' in module


# trainings on several machines


@with_facts
@with_kubectl
@each_cloud
def test_a_machine_of_a_fabric_has_whole_nodes_their_interfaces_and_the_libraries_that_nccl_needs(
    cloud: str, rendered: Rendered
) -> None:
    objects = rendered(cloud)["."]
    runtime = named(objects, "TrainingRuntime", trainjob.RUNTIME)
    validate(kind_of(runtime), runtime)
    pod = runtime["spec"]["template"]["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    (container,), (libraries,) = pod["containers"], pod["initContainers"]
    mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}

    assert container["resources"]["limits"][GPU] == pod["nodeSelector"]["nightshift/gpus"] == "8"
    assert libraries["volumeMounts"] == [{"name": "fabric", "mountPath": "/fabric"}]
    path = next(one["value"] for one in container["env"] if one["name"] == "LD_LIBRARY_PATH")
    assert path.startswith(f"{mounts['fabric']}/")
    assert not re.search(r":latest$|/[^:]+$", libraries["image"])
    # what the namespace enforces
    assert security.violations("baseline", pod) == []
    others = {name: value for name, value in container["resources"]["limits"].items() if name not in ("memory", GPU)}
    if cloud == "aws":
        assert others == {"vpc.amazonaws.com/efa": str(MADE.efa_interfaces)}
    else:
        assert others == {}
        (claim,) = pod["resourceClaims"]
        template = named(objects, "ResourceClaimTemplate", claim["resourceClaimTemplateName"])
        assert template["metadata"]["namespace"] == runtime["metadata"]["namespace"]
        assert container["resources"]["claims"] == [{"name": claim["name"]}]


@each_cloud
def test_the_pool_that_the_guide_shows_is_one_of_a_fabric_that_its_machines_have(cloud: str) -> None:
    page = (INFRA.parent / "docs" / "guides" / "gpus-on-clusters.md").read_text()
    (text,) = re.findall(rf"<!-- pool-{cloud} -->\n```yaml\n(.*?)```", page, re.DOTALL)
    shipped = questions.read(cloud, "prod").model_dump(mode="json")
    answers = questions.parse(yaml.safe_dump(shipped | yaml.safe_load(text)).encode(), f"{cloud}-prod.yaml")

    pools = rendering.variables(answers)["gpu_pools"]
    file, named = {"aws": ("node_pool", "instance_types"), "gcp": ("gpu_pools", "accelerator")}[cloud]
    module = (INFRA / cloud / "modules" / file / "main.tf").read_text()
    (known,) = re.findall(r"^ +cards = (.*)$|fabric != \"rdma\" \|\| contains\((.*), each", module, re.MULTILINE)
    (machine,) = re.findall(r"[\w.-]+", str(pools["fabric"][named]))
    assert f'"{machine}"' in "".join(known)
    assert len(pools) > 1 and answers.gpu.fabric.value in ("efa", "gib")


@with_facts
def test_the_collectives_are_tried_on_two_machines_of_the_runtime_that_trainings_have() -> None:
    job = yaml.safe_load((FOLDER / "collectives" / "trainjob.yaml").read_text())
    validate(kind_of(job), job)
    command = job["spec"]["trainer"]["command"]

    training = trainjob.TrainJobWork((), 2).body
    assert job["spec"]["runtimeRef"] == training["spec"]["runtimeRef"]
    assert job["spec"]["trainer"]["numNodes"] == training["spec"]["trainer"]["numNodes"]
    assert job["metadata"]["labels"] == training["metadata"]["labels"]
    assert command[:5] == ["python", *trainjob.LAUNCHER[:2], "-m", collectives.__name__]
    assert any(re.fullmatch(r"--at-least=\d+", word) for word in command)


# images


@with_kubectl
@each_cloud
def test_gpu_nodes_hold_the_image_that_was_pushed_by_its_digest(cloud: str, rendered: Rendered) -> None:
    holder = named(rendered(cloud)["."], "DaemonSet", "images")
    kubernetes_validate.validate(holder, kubernetes_validate.latest_version(), strict=True)
    pod = holder["spec"]["template"]["spec"]

    assert [one["image"] for one in pod["containers"]] == [f"{MADE.registry}/rapids@{DIGESTS['rapids']}"]
    assert pod["nodeSelector"] == {"nightshift/pool": SITES[cloud].placements[Role.GPU].nodes["nightshift/pool"]}
    assert security.violations("restricted", pod) == []
