"""The pages of a team behind a login, in infra/kubernetes/ui/: what they may read, who gets in, and that they start."""

from typing import Any

import kubernetes_validate
import pytest
import yaml

from nightshift.http.cross_site import check_site
from nightshift.http.messages import HttpRequest
from nightshift_testkit.cluster import security
from pipelines.cli.__main__ import parse_command_line
from tests.infra import checks
from tests.infra.test_kubernetes import FOLDER, image_user, objects

OBJECTS = {value["kind"]: value for value in objects(FOLDER / "ui")}
POD: dict[str, Any] = OBJECTS["Deployment"]["spec"]["template"]["spec"]
PAGES, LOGIN = POD["containers"]


@pytest.mark.parametrize("kind", OBJECTS)
def test_kubernetes_own_schema_takes_every_object(kind: str) -> None:
    kubernetes_validate.validate(OBJECTS[kind], kubernetes_validate.latest_version(), strict=True)


def test_the_pod_may_do_no_more_than_it_needs() -> None:
    (namespace,) = yaml.safe_load_all((FOLDER.parent / "cluster/namespaces/kubeflow/namespace.yaml").read_text())
    user, group = image_user()

    assert security.violations(namespace["metadata"]["labels"][security.LABEL], POD) == []
    assert (POD["securityContext"]["runAsUser"], POD["securityContext"]["runAsGroup"]) == (user, group)
    assert all(container["securityContext"]["readOnlyRootFilesystem"] for container in POD["containers"])
    assert POD["automountServiceAccountToken"] is OBJECTS["ServiceAccount"]["automountServiceAccountToken"] is False


def test_what_steps_have_written_can_only_be_read() -> None:
    claims = {volume["name"]: volume.get("persistentVolumeClaim") for volume in POD["volumes"]}
    mounts = {mount["name"]: mount for mount in PAGES["volumeMounts"]}

    assert claims["lustre"] == {"claimName": "nightshift-lustre", "readOnly": True}
    assert mounts["lustre"]["readOnly"] is True
    assert "volumeMounts" not in LOGIN


def test_the_pages_start_without_actions_where_only_the_login_reaches_them() -> None:
    words = PAGES["command"]
    args = parse_command_line(words[1:])
    host = find("--upstream").removeprefix("http://")

    assert PAGES["image"] == checks.example_image("base")
    assert (args.workspace, args.audit, "--allow" in words) == ("/lustre", "/lustre/audit", False)
    assert host == f"127.0.0.1:{args.port}"
    assert find("--pass-host-header") == "false"
    check_site(HttpRequest(headers={b"host": host.encode()}))
    ports = [port["targetPort"] for port in OBJECTS["Service"]["spec"]["ports"]]
    assert ports == [port["name"] for port in LOGIN["ports"]]


def test_the_login_is_pinned_and_its_secrets_are_references() -> None:
    secrets = [variable["valueFrom"]["secretKeyRef"]["key"] for variable in LOGIN["env"]]

    assert LOGIN["image"].rpartition(":")[2].startswith("v7.")
    assert secrets == ["client-id", "client-secret", "cookie-secret"]
    assert find("--email-domain") == "example.com"


def find(flag: str) -> str:
    """The value of a flag of the login."""
    (value,) = [word.partition("=")[2] for word in LOGIN["args"] if word.startswith(f"{flag}=")]
    return str(value)
