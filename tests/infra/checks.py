"""The checks that a configuration has to pass, by name; one that does not pass raises with what it said."""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
import yaml

from infra import terraform
from nightshift.runtime.image import image
from pipelines.images import EXAMPLE_REGISTRY
from tests.infra.plans import Json

CLOUDS = tuple(cloud for cloud in ("aws", "gcp") if (terraform.INFRA / cloud / "main.tf").exists())
EXAMPLES = ("try", "dev", "prod")  # what is shipped, and has golden pages; a user adds others beside them
TOOLS = Path(__file__).parents[2] / ".venv-infra" / "bin"


def environments(cloud: str) -> list[str]:
    """The environments of a cloud: the examples, and whatever a user has answered for beside them."""
    answered = (terraform.INFRA / "answers").glob(f"{cloud}-*.yaml")
    return sorted(path.stem.removeprefix(f"{cloud}-") for path in answered)


def example_image(name: str) -> str:
    """An image as manifests name it; the installation puts the registry in."""
    return image(name, EXAMPLE_REGISTRY)


def missing(what: str) -> None:
    """Skip a test whose tool is not there, or fail where all tools have to be."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(what)


def start(name: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run one of the tools in `.venv-infra`."""
    path = TOOLS / name
    if not path.exists():
        missing(f"{path} is not there: make .venv-infra/.installed")
    return subprocess.run([path, *map(str, arguments)], capture_output=True, text=True, check=False)


def applied(cloud: str) -> Json:
    """Apply dev; return its state."""
    commands = "terraform apply -auto-approve -input=false -no-color -var-file=dev.tfvars >&2 && terraform show -json"
    state: Json = json.loads(terraform.run(cloud, commands))
    return state


def checkov(cloud: str, source: Path) -> None:
    """Checkov finds in the sources what the cloud's `.checkov.yaml` skips, with the reasons, and nothing else."""
    with tempfile.TemporaryDirectory() as scratch:
        # it reads the file of the folder beside the one that it is given
        folder = Path(shutil.copytree(source / cloud, Path(scratch, cloud)))
        config = folder / ".checkov.yaml"
        settings = yaml.safe_load(config.read_text())
        skipped = set(settings.pop("skip-check"))
        config.write_text(yaml.safe_dump(settings | {"output": ["json"]}))
        done = start("checkov", "--directory", folder, "--config-file", config, "--soft-fail")
    assert not done.returncode, done.stdout + done.stderr
    failed = {line["check_id"]: f"{line['resource']}: {line['check_name']}" for line in _failed(done.stdout)}
    assert {check: resource for check, resource in failed.items() if check not in skipped} == {}
    assert skipped - failed.keys() == set(), "skipped and not needed"


def _failed(printed: str) -> list[Json]:
    failures: list[Json] = json.loads(printed)["results"]["failed_checks"]
    return failures
