"""The Kubernetes objects in infra/kubernetes/."""

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from components.common.kubeflow import MOUNTED_FILE
from pipelines.environments import SITES, Role, Site

FOLDER = Path(__file__).parents[2] / "infra" / "kubernetes"
CLUSTERS = [place for place in SITES.values() if place.placements[Role.GPU].gpus]


def kustomization(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((folder / "kustomization.yaml").read_text())
    return found


def files(folder: Path) -> list[Path]:
    """The files a kustomization brings together, those of its bases included."""
    found = []
    for name in kustomization(folder)["resources"]:
        path = (folder / name).resolve()
        found += files(path) if path.is_dir() else [path]
    return found


def objects(folder: Path) -> list[dict[str, Any]]:
    return [value for path in files(folder) for value in yaml.safe_load_all(path.read_text())]


def of_kind(folder: Path, kind: str) -> list[dict[str, Any]]:
    return [value for value in objects(folder) if value["kind"] == kind]


def test_every_file_belongs_to_a_kustomization() -> None:
    used = {path for name in (*[place.name for place in CLUSTERS], "multi-user") for path in files(FOLDER / name)}

    assert used == {path for path in FOLDER.rglob("*.yaml") if path.name != "kustomization.yaml"}


@pytest.mark.parametrize("place", CLUSTERS, ids=lambda place: place.name)
def test_kubernetes_own_schema_takes_every_object(place: Site) -> None:
    for value in objects(FOLDER / place.name):
        kubernetes_validate.validate(value, kubernetes_validate.latest_version(), strict=True)


@pytest.mark.parametrize("place", CLUSTERS, ids=lambda place: place.name)
def test_the_claims_that_steps_mount_are_there(place: Site) -> None:
    claims = {claim["metadata"]["name"]: claim for claim in of_kind(FOLDER / place.name, "PersistentVolumeClaim")}
    volumes = {volume["metadata"]["name"]: volume for volume in of_kind(FOLDER / place.name, "PersistentVolume")}

    assert set(claims) == {volume.claim for kind in place.placements.values() for volume in kind.volumes}
    for name, claim in claims.items():
        volume = volumes[claim["spec"]["volumeName"]]["spec"]
        assert volume["claimRef"] == {"namespace": kustomization(FOLDER / place.name)["namespace"], "name": name}
        assert volume["accessModes"] == claim["spec"]["accessModes"]
        assert volume["capacity"] == claim["spec"]["resources"]["requests"]


@pytest.mark.parametrize("place", CLUSTERS, ids=lambda place: place.name)
def test_volumes_are_mounted_with_the_locks_by_which_writers_take_turns(place: Site) -> None:
    volumes = of_kind(FOLDER / place.name, "PersistentVolume")

    assert [volume["spec"].get("mountOptions") for volume in volumes] == [["flock"]]


@pytest.mark.parametrize("place", CLUSTERS, ids=lambda place: place.name)
def test_every_binding_ties_a_role_that_is_there_to_an_account_that_is_there(place: Site) -> None:
    folder = FOLDER / place.name
    roles = {role["metadata"]["name"] for role in of_kind(folder, "Role")}
    accounts = {account["metadata"]["name"] for account in of_kind(folder, "ServiceAccount")}

    bindings = of_kind(folder, "RoleBinding")
    assert {binding["roleRef"]["name"] for binding in bindings} == roles
    assert {subject["name"] for binding in bindings for subject in binding["subjects"]} == accounts
    targets = {patch["target"]["name"] for patch in kustomization(folder).get("patches", [])}
    assert targets <= accounts


@pytest.mark.parametrize("place", CLUSTERS, ids=lambda place: place.name)
def test_no_role_is_given_everything_or_all_secrets(place: Site) -> None:
    for role in of_kind(FOLDER / place.name, "Role"):
        for rule in role["rules"]:
            assert "*" not in [*rule["verbs"], *rule["resources"], *rule["apiGroups"]]
            assert "secrets" not in rule["resources"] or rule["resourceNames"]


def test_the_pods_that_start_runs_find_a_token_of_kubeflows_audience_where_they_look() -> None:
    (default,) = objects(FOLDER / "multi-user")
    given = default["spec"]
    ((source,),) = [volume["projected"]["sources"] for volume in given["volumes"]]
    (mount,) = given["volumeMounts"]

    assert all(given["selector"]["matchLabels"] == place.placements[Role.LAUNCHER].labels for place in CLUSTERS)
    assert f"{mount['mountPath']}/{source['serviceAccountToken']['path']}" == MOUNTED_FILE
    assert source["serviceAccountToken"]["audience"] == "pipelines.kubeflow.org"


def test_what_is_added_to_a_pod_that_starts_runs_is_valid_in_one() -> None:
    (default,) = objects(FOLDER / "multi-user")
    container = {"name": "main", "image": "busybox", "volumeMounts": default["spec"]["volumeMounts"]}
    pod = {"metadata": {"name": "step"}, "spec": {"containers": [container], "volumes": default["spec"]["volumes"]}}

    whole = {"apiVersion": "v1", "kind": "Pod", **pod}
    kubernetes_validate.validate(whole, kubernetes_validate.latest_version(), strict=True)
