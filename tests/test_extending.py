"""The examples of docs/guides/extending.md are installed as a package and come by their entry points."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nightshift_testkit.processes import SECONDS

PAGE = (Path(__file__).parents[1] / "docs" / "guides" / "extending.md").read_text()
SCRIPT = """
from datetime import date
from components.ingestion.sources import _open
from components.release.targets.factory import _build_managed
import numpy as np
from nightshift.config import parse
from nightshift.models import recipes
from nightshift.models.graph import Graph
from nightshift.tasks.fitting import FitSpec
from nightshift.tasks.tabular import estimators
from pipelines import configs
rows = _open("acme://feed", parse(configs.load("fraud")), {}, "").read(date(2025, 6, 30)).load()
target = _build_managed({"kind": "acme"}, "fraud")
matrix = np.random.default_rng(0).normal(size=(500, 3)).astype(np.float32)
spec = FitSpec("parameters", {"shrinkage": 0.5}, 0, 1, "cpu")
fitted = estimators.fit("acme_discriminant", spec, matrix, (matrix[:, 0] > 0).astype(np.int8))
assert np.abs(Graph(fitted.graph).score(matrix) - fitted.predict(matrix)).max() < 1e-5
print(len(rows), target.serving(), recipes.find("acme_mlp").build.__name__)
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Return the variables of processes that have the page's package."""
    (tmp_path / "acme").mkdir()
    for file, text in re.findall(r'^```python title="(acme/\w+\.py)"\n(.*?)^```', PAGE, re.MULTILINE | re.DOTALL):
        (tmp_path / file).write_text(text)
    (points,) = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    info = tmp_path / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    lines = re.sub(r'\[project\.entry-points\."(.*?)"\]', r"[\1]", points).replace('"', "")
    (info / "entry_points.txt").write_text(lines)
    return os.environ | {"PYTHONPATH": str(tmp_path)}


@pytest.mark.slow
def test_a_command_of_a_package_runs(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "lake/fraud/events/date=2025-06-30").mkdir(parents=True)
    command = [sys.executable, "-m", "pipelines.cli", "days", "--workspace", str(tmp_path)]

    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS)

    assert done.stdout == "date=2025-06-30\n", done.stderr


@pytest.mark.slow
def test_a_source_a_target_a_candidate_and_a_network_of_a_package_are_used(environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=SECONDS
    )

    assert done.stdout == "1 {} build\n", done.stderr
