"""The night and its packages, as wheels, far from any checkout; and a project that is made and updated with them."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
import yaml

from nightshift_testkit.processes import SECONDS

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]
PROJECTS = [".", "packages/image-text", "packages/llm", "packages/perf", "packages/testkit"]
PACKAGES = [
    *("components", "nightshift", "nightshift_image_text", "nightshift_llm", "nightshift_perf", "nightshift_testkit"),
    "pipelines",
]
AIRFLOW = ROOT / ".venv-airflow/bin/python"
SMALL = {
    "name": "small",
    "label_delay_days": 1,
    "source": {"files": "{date}.parquet"},
    "columns": {
        "event_id": "transaction_id",
        "event_time": "time",
        "customer": "customer_id",
        "terminal": "terminal_id",
        "amount": "amount",
        "label": "fraud",
    },
    "simulator": {"customers": 300, "terminals": 60},
    "protocol": {"train_days": 2, "test_days": 2},
    "features": [{"preset": "payments", "windows": ["1d"]}],
    "task": {"kind": "tabular", "candidates": {"logistic_regression": {"kind": "logistic_regression"}}},
    "evaluation": {"min_positives": 1, "min_average_precision": 0.0},
    "drift": {"window_days": 1},
}
LIST_DAGS = """
import pipelines
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(dag_folder="dags", bundle_path="dags")
print(pipelines.__file__, sorted(bag.dags), bag.import_errors)
"""


def uv(*words: object) -> None:
    subprocess.run([sys.executable, "-m", "uv", *map(str, words)], check=True, timeout=SECONDS)


def build(source: Path, wheels: Path) -> None:
    uv("build", "--quiet", "--wheel", "--out-dir", wheels, source)


def install(folder: Path, wheels: Path) -> Path:
    """Return the interpreter of a new environment with our wheels; the libraries are those of this environment.

    It sees their folder as a plain one, so that the checkout, which is installed there by hooks, is out of reach.
    """
    uv("venv", "--quiet", "--python", sys.executable, folder)
    uv("pip", "install", "--quiet", "--no-deps", "--python", folder, *wheels.glob("*.whl"))
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "libraries.pth").write_text(sysconfig.get_path("purelib"))
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheels")
    for project in PROJECTS:
        build(ROOT / project, folder)
    return folder


@pytest.fixture(scope="module")
def python(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment with all wheels."""
    return install(tmp_path_factory.mktemp("environment"), wheels)


@pytest.fixture(scope="module")
def project(python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in a folder that was empty, with a config for a small simulated world."""
    config, folder = tmp_path_factory.mktemp("config") / "small.yaml", tmp_path_factory.mktemp("project")
    config.write_text(yaml.safe_dump(SMALL))
    done = run(python, folder, "-m", "pipelines.cli", "init", "my-fraud", "--config", str(config))
    assert done.stdout.splitlines()[-1] == "next: nightshift run --config dags/my-fraud.yaml"
    return folder


def run(python: Path, folder: Path, *words: str, code: int = 0, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | variables
    command = [str(python), *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (["-m", "pipelines.cli", "config", "show", "tales"], "kind: language-modeling"),
        (["-m", "pipelines.cli", "perf", "plan", "--model", "llama3-8b", "--gpu", "h100-80gb", "--batch", "8"], "GiB"),
        (["-m", "pipelines.cli", "--help"], "llm:"),
        (["-c", "import nightshift_testkit.cluster as cluster; print(cluster.__file__)"], "environment"),
    ],
)
def test_wheels_run_from_an_empty_folder(python: Path, tmp_path: Path, words: list[str], output: str) -> None:
    assert output in run(python, tmp_path, *words).stdout


def test_wheels_hold_their_packages_alone_and_the_compiled_pipelines(wheels: Path) -> None:
    files = [name for wheel in wheels.glob("*.whl") for name in zipfile.ZipFile(wheel).namelist()]

    assert "pipelines/compiled/local/training.yaml" in files
    assert sorted({name.partition("/")[0] for name in files if ".dist-info/" not in name}) == PACKAGES


def test_a_project_made_in_an_empty_folder_trains_and_passes_its_tests(python: Path, project: Path) -> None:
    assert "2 passed" in run(python, project, "-m", "pytest", "-q", "-p", "no:cacheprovider").stdout


def test_a_project_loads_in_airflow_with_the_wheels_code_alone(python: Path, project: Path, tmp_path: Path) -> None:
    if not AIRFLOW.exists():
        assert "CI" not in os.environ, "Airflow's environment is missing; make .venv-airflow/.installed"
        pytest.skip("Airflow's environment is missing; make .venv-airflow/.installed")
    (packages,) = python.parents[1].glob("lib/python*/site-packages")
    settings = {"AIRFLOW_HOME": str(tmp_path), "AIRFLOW__CORE__LOAD_EXAMPLES": "false"}

    listed = run(AIRFLOW, project, "-c", LIST_DAGS, PYTHONPATH=str(packages), **settings).stdout.splitlines()[-1]

    names = [f"my_fraud_{purpose}" for purpose in ("backfill", "ingestion", "monitoring", "training")]
    assert listed == f"{packages}/pipelines/__init__.py {names} {{}}"


def test_a_second_version_updates_a_project_and_keeps_its_users_changes(project: Path, tmp_path: Path) -> None:
    python = install(tmp_path / "environment", build_next_version(tmp_path))
    requirements = project / "pyproject.toml"
    requirements.write_text(requirements.read_text().replace('test = ["pytest', 'test = ["hypothesis", "pytest'))
    before = {path: path.read_bytes() for path in project.rglob("*") if path.is_file()}

    shown = run(python, project, "-m", "pipelines.cli", "update").stdout
    assert '-dependencies = ["nightshift-ml[cpu,ui]==' in shown
    assert '+dependencies = ["nightshift-ml[cpu,ui]==99.1.0"]' in shown and "+/models-of-99/" in shown
    run(python, project, "-m", "pipelines.cli", "update", "--check", code=1)
    assert {path: path.read_bytes() for path in project.rglob("*") if path.is_file()} == before

    run(python, project, "-m", "pipelines.cli", "update", "--apply")
    merged = requirements.read_text()
    assert 'test = ["hypothesis", "pytest' in merged and '"nightshift-ml[cpu,ui]==99.1.0"' in merged
    assert (project / ".gitignore").read_text().endswith("/models-of-99/\n")
    run(python, project, "-m", "pipelines.cli", "update", "--check")


def build_next_version(folder: Path) -> Path:
    """Build a later version of the product, of which a template is another one, and return its wheels' folder."""
    source = folder / "source"
    source.mkdir()
    for name in ("components", "nightshift", "pipelines"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    text = (ROOT / "pyproject.toml").read_text()
    (source / "pyproject.toml").write_text(re.sub(r'^version = ".*"', 'version = "99.1.0"', text, flags=re.MULTILINE))
    with (source / "pipelines/scaffold/templates/gitignore.j2").open("a") as template:
        template.write("/models-of-99/\n")
    build(source, folder / "wheels")
    return folder / "wheels"
