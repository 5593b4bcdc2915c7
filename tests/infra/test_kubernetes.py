"""The Kubernetes objects in infra/kubernetes/."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from components.training import trainjob
from nightshift.cluster.kubeflow import MOUNTED_FILE
from nightshift.models.neural.preemption import SHUTDOWN_SECONDS
from nightshift_testkit.cluster import security
from pipelines.environments import GPU, SERVICE_ACCOUNT, SHARED_MEMORY, SITES, Role, Site
from tests.infra import checks
from tests.infra.edges import needs

FOLDER = Path(__file__).parents[2] / "infra" / "kubernetes"
# the smallest have no volume, and an overlay that infra/cloud renders
CLUSTERS = [site for site in SITES.values() if site.placements[Role.GPU].volumes]


def kustomization(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((folder / "kustomization.yaml").read_text())
    return content


def files(folder: Path) -> list[Path]:
    """The files a kustomization brings together, those of its bases included."""
    paths = []
    for name in kustomization(folder).get("resources", []):
        path = (folder / name).resolve()
        paths += files(path) if path.is_dir() else [path]
    return paths


def patch_files(folder: Path) -> list[Path]:
    """The files of a kustomization that change what others bring."""
    return [(folder / patch["path"]).resolve() for patch in kustomization(folder).get("patches", []) if "path" in patch]


def objects(folder: Path) -> list[dict[str, Any]]:
    return [value for path in files(folder) for value in yaml.safe_load_all(path.read_text())]


def of_kind(folder: Path, kind: str) -> list[dict[str, Any]]:
    return [value for value in objects(folder) if value["kind"] == kind]


def test_every_file_belongs_to_a_kustomization() -> None:
    folders = [file.parent for file in FOLDER.glob("*/kustomization.yaml")]
    used = {path for folder in folders for path in (*files(folder), *patch_files(folder))}

    assert used == {path for path in FOLDER.rglob("*.yaml") if path.name != "kustomization.yaml"}


@pytest.mark.parametrize("site", CLUSTERS, ids=lambda site: site.name)
def test_kubernetes_own_schema_takes_every_object(site: Site) -> None:
    # those of other kinds are given to their own schemas where they are used
    for value in [manifest for manifest in objects(FOLDER / site.name) if "kubeflow.org" not in manifest["apiVersion"]]:
        kubernetes_validate.validate(value, kubernetes_validate.latest_version(), strict=True)


@pytest.mark.parametrize("site", CLUSTERS, ids=lambda site: site.name)
def test_the_claims_that_steps_mount_are_there(site: Site) -> None:
    claims = {claim["metadata"]["name"]: claim for claim in of_kind(FOLDER / site.name, "PersistentVolumeClaim")}
    volumes = {volume["metadata"]["name"]: volume for volume in of_kind(FOLDER / site.name, "PersistentVolume")}

    assert set(claims) == {volume.claim for kind in site.placements.values() for volume in kind.volumes}
    for name, claim in claims.items():
        volume = volumes[claim["spec"]["volumeName"]]["spec"]
        assert volume["claimRef"] == {"namespace": kustomization(FOLDER / site.name)["namespace"], "name": name}
        assert volume["accessModes"] == claim["spec"]["accessModes"]
        # nobody provisions it, so that a larger one would be refused: how large the file system is, the volume says
        assert claim["spec"]["resources"] == {"requests": {"storage": "1Gi"}} and "storageClassName" in claim["spec"]


@pytest.mark.slow
@pytest.mark.parametrize("site", CLUSTERS, ids=lambda site: site.name)
def test_steps_may_write_the_root_of_a_new_file_system(site: Site, tmp_path: Path) -> None:
    """What the installation runs as root hands a folder of root's over to the user of the images."""
    (job,) = of_kind(FOLDER / site.name, "Job")
    pod = job["spec"]["template"]["spec"]
    (container,), (volume,) = pod["containers"], pod["volumes"]
    (mount,) = container["volumeMounts"]
    user = image_user()
    assert volume["persistentVolumeClaim"]["claimName"] in {
        claimed.claim for claimed in site.placements[Role.GPU].volumes
    }
    assert mount["mountPath"] in {claimed.path for claimed in site.placements[Role.GPU].volumes}
    assert container["image"] == checks.example_image("base") and pod["securityContext"]["runAsUser"] == 0
    (namespace,) = yaml.safe_load_all((FOLDER.parent / "cluster/namespaces/kubeflow/namespace.yaml").read_text())
    assert security.violations(namespace["metadata"]["labels"][security.LABEL], pod) == []
    if os.geteuid():
        pytest.skip("only root gives a folder away")
    root = tmp_path / "root"
    root.mkdir(mode=0o755)

    subprocess.run([str(root) if word == mount["mountPath"] else word for word in container["command"]], check=True)

    assert (root.stat().st_uid, root.stat().st_gid) == user


def image_user() -> tuple[int, int]:
    """The user and group under which every image runs."""
    text = (FOLDER.parents[1] / "containers" / "Dockerfile").read_text()
    stages = (re.findall(r"^USER (\d+):(\d+)$", stage, re.MULTILINE) for stage in text.split("\nFROM "))
    ((user, group),) = {users[-1] for users in stages if users}
    return int(user), int(group)


@pytest.mark.parametrize("site", CLUSTERS, ids=lambda site: site.name)
def test_volumes_are_mounted_with_the_locks_by_which_writers_take_turns(site: Site) -> None:
    volumes = of_kind(FOLDER / site.name, "PersistentVolume")

    assert [volume["spec"].get("mountOptions") for volume in volumes] == [["flock"]]


@pytest.mark.parametrize("site", CLUSTERS, ids=lambda site: site.name)
def test_every_binding_ties_a_role_that_is_there_to_an_account_that_is_there(site: Site) -> None:
    folder = FOLDER / site.name
    roles = {role["metadata"]["name"] for role in of_kind(folder, "Role")}
    accounts = {account["metadata"]["name"] for account in of_kind(folder, "ServiceAccount")}

    bindings = of_kind(folder, "RoleBinding")
    assert {binding["roleRef"]["name"] for binding in bindings} == roles
    assert {subject["name"] for binding in bindings for subject in binding["subjects"]} == accounts


@pytest.mark.parametrize("site", CLUSTERS, ids=lambda site: site.name)
def test_the_accounts_are_those_of_steps(site: Site) -> None:
    accounts = {account["metadata"]["name"] for account in of_kind(FOLDER / site.name, "ServiceAccount")}

    assert accounts == {SERVICE_ACCOUNT, *needs.accounts(site)}


@pytest.mark.parametrize("site", CLUSTERS, ids=lambda site: site.name)
def test_no_role_is_given_everything_or_all_secrets(site: Site) -> None:
    for role in of_kind(FOLDER / site.name, "Role"):
        for rule in role["rules"]:
            assert "*" not in [*rule["verbs"], *rule["resources"], *rule["apiGroups"]]
            assert "secrets" not in rule["resources"] or rule["resourceNames"]


def test_the_pods_that_start_runs_find_a_token_of_kubeflows_audience_where_they_look() -> None:
    (default,) = objects(FOLDER / "multi-user")
    spec = default["spec"]
    ((source,),) = [volume["projected"]["sources"] for volume in spec["volumes"]]
    (mount,) = spec["volumeMounts"]

    assert all(spec["selector"]["matchLabels"] == site.placements[Role.LAUNCHER].labels for site in CLUSTERS)
    assert f"{mount['mountPath']}/{source['serviceAccountToken']['path']}" == MOUNTED_FILE
    assert source["serviceAccountToken"]["audience"] == "pipelines.kubeflow.org"


def test_what_is_added_to_a_pod_that_starts_runs_is_valid_in_one() -> None:
    (default,) = objects(FOLDER / "multi-user")
    container = {"name": "main", "image": "busybox", "volumeMounts": default["spec"]["volumeMounts"]}
    pod = {"metadata": {"name": "step"}, "spec": {"containers": [container], "volumes": default["spec"]["volumes"]}}

    whole = {"apiVersion": "v1", "kind": "Pod", **pod}
    kubernetes_validate.validate(whole, kubernetes_validate.latest_version(), strict=True)


def on_nodes(value: dict[str, Any]) -> dict[str, Any]:
    """The job that a runtime makes of a TrainJob."""
    (job,) = value["spec"]["template"]["spec"]["replicatedJobs"]
    spec: dict[str, Any] = job["template"]["spec"]
    return spec


@pytest.mark.parametrize("site", CLUSTERS, ids=lambda site: site.name)
def test_a_machine_of_a_trainjob_gets_what_a_gpu_step_does(site: Site) -> None:
    wanted, (runtime,) = site.placements[Role.GPU], of_kind(FOLDER / site.name, "TrainingRuntime")
    job = on_nodes(runtime)
    pod = job["template"]["spec"]
    (container,) = pod["containers"]
    mounted = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
    volumes = {volume.pop("name"): volume for volume in pod["volumes"]}

    assert runtime["metadata"]["name"] == trainjob.RUNTIME and container["name"] == trainjob.CONTAINER
    assert container["image"] == checks.example_image("rapids")
    assert container["resources"] == {
        "requests": {"cpu": wanted.cpu_request, "memory": wanted.memory_request},
        "limits": {"cpu": wanted.cpu_limit, "memory": wanted.memory_limit, GPU: str(wanted.gpus)},
    }
    assert pod["nodeSelector"] == wanted.nodes
    assert [(toleration["key"], toleration["value"]) for toleration in pod["tolerations"]] == [
        (taint.key, taint.value) for taint in wanted.tolerations
    ]
    assert {toleration["effect"] for toleration in pod["tolerations"]} == {"NoSchedule"}
    assert {path: volumes[name] for path, name in mounted.items()} == {
        **{claimed.path: {"persistentVolumeClaim": {"claimName": claimed.claim}} for claimed in wanted.volumes},
        SHARED_MEMORY: {"emptyDir": {"medium": "Memory", "sizeLimit": wanted.shared_memory}},
    }
    assert pod["terminationGracePeriodSeconds"] == wanted.grace > SHUTDOWN_SECONDS
    assert job["activeDeadlineSeconds"] == wanted.timeout
    assert security.violations("restricted", pod) == []


@pytest.mark.parametrize("site", CLUSTERS, ids=lambda site: site.name)
def test_a_machine_of_a_trainjob_may_use_the_cloud_as_a_step_does_and_not_the_cluster(site: Site) -> None:
    (runtime,) = of_kind(FOLDER / site.name, "TrainingRuntime")
    pod = on_nodes(runtime)["template"]["spec"]

    assert pod["serviceAccountName"] == SERVICE_ACCOUNT
    assert pod["automountServiceAccountToken"] is False
