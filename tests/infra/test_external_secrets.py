"""The secrets that External Secrets reads from a store: those that `secrets.sh` makes otherwise, key by key."""

from pathlib import Path

import pytest

from infra.policies.secrets import read_keys
from infra.terraform import INFRA
from tests.infra.kustomize import built
from tests.infra.plans import Json

pytestmark = pytest.mark.slow
FOLDER = INFRA / "cluster" / "external-secrets"
SCRIPT = Path(INFRA / "cluster" / "secrets.sh").read_text()


def read(cloud: str) -> tuple[Json, list[Json]]:
    """The store of a cloud, and the secrets that are read from it."""
    objects = built(FOLDER / cloud)
    (store,) = (value for value in objects if value["kind"] == "ClusterSecretStore")
    return store, [value for value in objects if value["kind"] == "ExternalSecret"]


def name(secret: Json) -> tuple[str, str]:
    return secret["metadata"]["namespace"], secret["metadata"]["name"]


@pytest.mark.parametrize("cloud", ["aws", "gcp"])
def test_a_store_has_every_secret_and_key_that_the_script_makes(cloud: str) -> None:
    store, secrets = read(cloud)

    assert {name(secret): {entry["secretKey"] for entry in secret["spec"]["data"]} for secret in secrets} == read_keys(
        SCRIPT
    )
    reference = {"kind": "ClusterSecretStore", "name": store["metadata"]["name"]}
    assert [secret for secret in secrets if secret["spec"]["secretStoreRef"] != reference] == []
    (condition,) = store["spec"]["conditions"]
    assert set(condition["namespaces"]) == {namespace for namespace, _ in map(name, secrets)}


def test_a_value_is_read_by_one_secret_or_by_both_sides_of_a_login() -> None:
    readers: dict[str, set[tuple[str, str]]] = {}
    for secret in read("aws")[1]:
        for entry in secret["spec"]["data"]:
            assert entry["remoteRef"]["property"] == entry["secretKey"]
            readers.setdefault(entry["remoteRef"]["key"], set()).add(name(secret))

    shared = [secrets for secrets in readers.values() if len(secrets) > 1]
    logins = ("nightshift-mlflow", "nightshift-serving")
    assert sorted(map(sorted, shared)) == [[(space, login) for space in ("kubeflow", "nightshift")] for login in logins]
    assert all(key.startswith("nightshift-") and key.replace("-", "").isalnum() for key in readers)
