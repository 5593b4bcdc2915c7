"""The night and its packages, as wheels, far from any checkout."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from nightshift_testkit.processes import SECONDS

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[1]
PROJECTS = [".", "packages/llm", "packages/perf", "packages/testkit"]
PACKAGES = ["components", "nightshift", "nightshift_llm", "nightshift_perf", "nightshift_testkit", "pipelines"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All wheels, unpacked."""
    wheels, site = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("site")
    for project in PROJECTS:
        build = [sys.executable, "-m", "uv", "build", "--quiet", "--wheel", "--out-dir", str(wheels)]
        subprocess.run([*build, str(ROOT / project)], check=True, timeout=SECONDS)
    for wheel in wheels.glob("*.whl"):
        zipfile.ZipFile(wheel).extractall(site)
    return site


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (["-m", "pipelines.cli", "config", "show", "tales"], "kind: language-modeling"),
        (["-m", "pipelines.cli", "perf", "plan", "--model", "llama3-8b", "--gpu", "h100-80gb", "--batch", "8"], "GiB"),
        (["-m", "pipelines.cli", "--help"], "llm:"),
        (["-c", "import nightshift_testkit.cluster as cluster; print(cluster.__file__)"], "nightshift_testkit"),
    ],
)
def test_wheels_run_from_an_empty_folder(site: Path, tmp_path: Path, words: list[str], output: str) -> None:
    environment = os.environ | {"PYTHONPATH": str(site)}  # before the checkout, which is installed too
    command = [sys.executable, *words]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert output in done.stdout


def test_wheels_hold_their_packages_alone_and_the_compiled_pipelines(site: Path) -> None:
    assert (site / "pipelines/compiled/local/training.yaml").exists()
    assert sorted(path.name for path in site.iterdir() if path.suffix != ".dist-info") == PACKAGES
