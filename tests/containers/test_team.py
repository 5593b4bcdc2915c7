"""compose.yaml: Nightshift for a team on one machine, as it is written and as docker-compose reads it."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from nightshift.runtime.image import ImageName, image
from tests.test_docs import ROOT

TEXT = (ROOT / "compose.yaml").read_text()
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(TEXT)["services"]
EXAMPLE = (ROOT / ".env.example").read_text()
ONCE = {"migration", "volumes"}  # services that end
SECRET = re.compile(r"PASSWORD|SECRET|KEY|CONN|URI$")


def test_secrets_are_variables_without_a_value_and_the_example_names_each() -> None:
    required = set(re.findall(r"\$\{(\w+):\?see \.env\.example\}", TEXT))

    assert set(re.findall(r"^(\w+)=$", EXAMPLE, re.MULTILINE)) == required
    for service in SERVICES.values():
        for name, value in service.get("environment", {}).items():
            is_path = value.startswith(("/", "http"))
            assert not SECRET.search(name) or is_path or value == "nightshift" or "${" in value, name


def test_pages_are_reached_from_this_machine_alone() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]

    assert ports and all(port.startswith("127.0.0.1:") for port in ports)
    assert [name for name, service in SERVICES.items() if service.get("network_mode")] == ["ui"]
    assert "--host" not in SERVICES["ui"]["command"]


def test_no_service_has_roots_rights_and_each_that_stays_is_watched() -> None:
    for name, service in SERVICES.items():
        assert (service["cap_drop"], service["security_opt"]) == (["ALL"], ["no-new-privileges:true"])
        assert not {"privileged", "cap_add", "devices"} & service.keys()
        assert ("healthcheck" in service) != (name in ONCE)
    # images that start as root unless they are asked not to
    assert all(SERVICES[name]["user"].split(":")[0] != "0" for name in ("postgres", "mlflow"))


def test_images_are_ours_or_those_of_a_cluster_by_version() -> None:
    images = {service["image"] for service in SERVICES.values()}
    ours = {name for name in images if name.startswith("nightshift/")}
    manifests = "".join(path.read_text() for path in (ROOT / "infra/cluster/namespaces").rglob("*.yaml"))

    assert ours == {image(ImageName.AIRFLOW), image(ImageName.WORKER)}
    assert all(re.search(r":v?\d+[\w.-]*$", name) for name in images)
    assert all(f"image: {SERVICES[name]['image']}\n" in manifests for name in ("postgres", "mlflow"))


def test_every_file_that_is_mounted_is_there() -> None:
    mounts = [mount for service in SERVICES.values() for mount in service.get("volumes", []) if mount.startswith("./")]

    assert mounts and all((ROOT / mount.partition(":")[0]).exists() for mount in mounts)


@pytest.mark.slow
def test_docker_compose_accepts_it_once_each_secret_has_a_value(tmp_path: Path) -> None:
    program = shutil.which("docker-compose")
    if program is None:
        assert "CI" not in os.environ, "docker-compose is missing; .ci/engine installs it"
        pytest.skip("docker-compose is not installed")
    variables = tmp_path / "env"
    command = [program, "--env-file", str(variables), "config", "--quiet"]

    variables.write_text(EXAMPLE)
    refused = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    variables.write_text(re.sub("=$", "=something", EXAMPLE, flags=re.MULTILINE))
    accepted = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert refused.returncode != 0 and "see .env.example" in refused.stderr
    assert (accepted.returncode, accepted.stderr) == (0, "")
