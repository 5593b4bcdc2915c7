"""The images: what `make images` has built, and what linters say of the Dockerfile."""

import json
import re
import shutil
import subprocess
import sys
import urllib.request
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from nightshift import storage
from nightshift.contracts import package
from nightshift.runtime.image import ImageName, image
from nightshift.serving.files import DeploymentPointer, pointer_uri, state_uri
from nightshift_testkit.processes import wait_until

DOCKERFILE = Path("containers/Dockerfile")
BUILT = ("base", "serving", "airflow")
GPU = ("gpu", "dask", "dask-cuda", "aws", "gcp", "openlineage", "otel")  # extras of the image for GPUs
PARSE = """
import json
from airflow.configuration import conf
from airflow.dag_processing.dagbag import DagBag

folder = conf.get("core", "dags_folder")
found = DagBag(dag_folder=folder, bundle_path=folder)
print(json.dumps([found.import_errors, sorted(found.dags)]))
"""


def tool(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a tool of the environment that the tests run in."""
    command = [str(Path(sys.executable).with_name(words[0])), *words[1:]]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_dockerfile_has_nothing_for_hadolint_to_say() -> None:
    done = tool("hadolint", str(DOCKERFILE))
    assert done.returncode == 0, done.stdout


def test_every_image_ends_as_a_user_that_is_not_root() -> None:
    stages = re.findall(r"^FROM [^\n]* AS (\S+)\n(.*?)(?=^FROM |\Z)", DOCKERFILE.read_text(), re.MULTILINE | re.DOTALL)

    assert [name for name, body in stages if "\nUSER 10001:10001\n" not in body] == ["runtime", "source", "endpoint"]
    assert {name for name, body in stages if "\nUSER 10001:10001\n" in body} == set(ImageName)


def test_the_dockerfile_has_nothing_for_trivy_to_say() -> None:
    done = tool(
        "trivy", "config", "--skip-check-update", "--exit-code", "1", "--quiet", "--format", "json", "containers"
    )
    assert done.returncode == 0, done.stdout
    assert len(json.loads(done.stdout)["Results"]) == 1


def resolved(*wanted: str) -> set[str]:
    """What would be installed, `name==version`."""
    there = ("--python-version", "3.11", "--python-platform", "x86_64-manylinux_2_28")
    done = tool("uv", "pip", "compile", "--system-certs", "--quiet", "--no-header", "--no-annotate", *there, *wanted)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_the_pins_of_the_gpu_image_exist_and_agree() -> None:
    constraints = Path("constraints/gpu-py3.11.txt")
    extras = [word for name in GPU for word in ("--extra", name)]
    planned = resolved(*extras, "-c", str(constraints), "pyproject.toml")
    assert {"torch==2.10.0", "cudf-cu12==26.2.1", "cuml-cu12==26.2.0", "dask-cuda==26.2.0"} <= planned
    assert planned <= set(constraints.read_text().split())


def test_the_pins_of_the_gpu_server_exist_and_agree() -> None:
    constraints = Path("constraints/serving-gpu-py3.11.txt")
    planned = resolved("--group", "pyproject.toml:serving-gpu", "-c", str(constraints))
    cpu = set(Path("constraints/py3.11.txt").read_text().split())
    (version,) = (requirement.partition("==")[2] for requirement in cpu if requirement.startswith("onnxruntime=="))
    assert f"onnxruntime-gpu=={version}" in planned
    assert planned <= set(constraints.read_text().split())


@pytest.mark.parametrize("name", BUILT)
def test_an_image_runs_what_it_is_told_as_a_user_that_is_not_root(engine: Any, name: str) -> None:
    settings = engine.images.get(image(name)).attrs["Config"]
    assert settings["User"] == "10001:10001"
    assert not settings["Entrypoint"]
    labels = {key.removeprefix("org.opencontainers.image.") for key in settings["Labels"]}
    assert labels >= {"title", "source", "revision", "version", "licenses"}
    assert engine.containers.run(image(name), ["id", "-u"], remove=True, read_only=True) == b"10001\n"


@pytest.mark.parametrize("name", BUILT)
def test_an_image_holds_neither_an_installer_nor_a_compiler_of_its_own(engine: Any, name: str) -> None:
    programs = engine.containers.run(image(name), ["ls", "/opt/nightshift/bin"], remove=True).decode().split()
    assert "python" in programs
    assert not {"pip", "uv", "gcc", "cc"} & set(programs)


def test_steps_in_the_image_can_write_files_for_engines(engine: Any) -> None:
    code = "import gguf; from nightshift_llm import llamacpp; llamacpp.library()"
    engine.containers.run(image("base"), ["python", "-c", code], remove=True, read_only=True)


@pytest.mark.parametrize("variables", [{}, {"KFP_ENDPOINT": "http://localhost:1"}], ids=["pods", "kubeflow"])
def test_airflows_image_holds_all_that_its_dags_are_made_of(engine: Any, variables: dict[str, str]) -> None:
    printed = engine.containers.run(
        image("airflow"),
        ["python", "-c", PARSE],
        environment={"NIGHTSHIFT_ENVIRONMENT": "aws"} | variables,
        remove=True,
    )
    purposes = ("backfill", "ingestion", "monitoring", "training")
    names = sorted(f"{path.stem}_{purpose}" for path in Path("dags").glob("*.py") for purpose in purposes)
    assert json.loads(printed.decode().splitlines()[-1]) == [{}, names]


def test_the_served_champion_answers_from_its_container(engine: Any, save_model: Any, tmp_path: Path) -> None:
    uri = save_model(0.5)
    registry = tmp_path / "served"
    state = state_uri(str(registry), "fraud")
    shutil.copytree(uri, registry / "model")
    storage.write_json(
        pointer_uri(str(registry), "fraud"),
        asdict(DeploymentPointer(1, "/registry/model", package.load(uri).sha256, "2025-06-30T00:00:00Z")),
    )
    for path in [registry, *registry.rglob("*")]:
        path.chmod(0o777)
    options = {"detach": True, "read_only": True, "tmpfs": {"/tmp": ""}, "network_mode": "host"}
    ours = {str(registry): {"bind": "/registry", "mode": "rw"}}
    sagemakers = {str(registry / "model"): {"bind": "/opt/ml/model", "mode": "ro"}}
    words = ["python", "-m", "nightshift.serving", "--registry", "/registry", "--name", "fraud"]
    containers = [engine.containers.run(image("serving"), words, volumes=ours, **options)]
    try:
        wait_until(lambda: storage.exists(state), "the endpoint says at which port it listens")
        url = f"http://127.0.0.1:{storage.read_json(state)['port']}/healthz"
        assert wait_until(lambda: get(url), "the endpoint answers")["version"] == 1
        # port 8080 is likely to be taken here, so in a network of its own
        alone = options | {"network_mode": "none"}
        containers.append(engine.containers.run(image("serving"), ["serve"], volumes=sagemakers, **alone))
        wait_until(lambda: containers[1].exec_run(PING).output == b"{}", "the endpoint answers as SageMaker asks")
        assert wait_until(lambda: health(containers[0]), "the container is healthy") == "healthy"
    finally:
        for container in containers:
            container.remove(force=True)


PING = [
    "python",
    "-c",
    "from urllib.request import urlopen; print(urlopen('http://127.0.0.1:8080/ping').read().decode(), end='')",
]


def get(url: str) -> Any:
    with urllib.request.urlopen(url) as answer:
        return json.load(answer)


def health(container: Any) -> str | None:
    container.reload()
    status: str = container.attrs["State"]["Health"]["Status"]
    return status if status == "healthy" else None
