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

# a day of amounts: the function's values in a batch, and those that its replay over a snapshot gives
FEATURES = """
from datetime import date
import numpy as np
import pandas as pd
from nightshift.config import parse
from nightshift.data.splits import Days
from nightshift.tabular import frames
from nightshift.tabular.online import skew, snapshot
from nightshift.tasks.tabular.features import core
from pipelines import configs
line = {"entity": "customer", "functions": ["acme_spread"], "column": "amount", "windows": ["7d"]}
config = parse(configs.load("fraud") | {"features": [line]})
times = pd.date_range("2025-06-29", periods=8, freq="6h").astype("datetime64[us]")
events = pd.DataFrame({"event_id": range(8), "event_time": times, "customer": 1, "terminal": 1})
events = events.assign(amount=[5.5, 1, 3, 9, 9, 0.25, 2, 2], label=pd.array([0] * 8, dtype="Int8"))
rows = core.features(events, config, frames.backend("cpu"))
base = snapshot.in_memory(config, Days(date(2025, 6, 22), date(2025, 6, 29)), events[:4])
replay = skew.replay(base, events[4:], rows[4:], config)
print(rows["customer_acme_spread_amount_7d"].tolist(), replay.rows, replay.differing)
"""

UI = """
import sys
from pathlib import Path
from starlette.testclient import TestClient
from pipelines.environments import local
from pipelines.ui.app import build_app
from pipelines.workspace import Workspace
client = TestClient(build_app(Workspace(local(Path(sys.argv[1])))), base_url="http://127.0.0.1")
print("1 days" in client.get("/acme/fraud").text, client.get("/acme/fraud.json").json()["days"])
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
def test_a_command_and_a_page_of_a_package_run(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "lake/fraud/events/date=2025-06-30").mkdir(parents=True)
    command = [sys.executable, "-m", "pipelines.cli", "days", "--workspace", str(tmp_path)]

    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS)
    page = subprocess.run(
        [sys.executable, "-c", UI, str(tmp_path)], env=environment, capture_output=True, text=True, timeout=SECONDS
    )

    assert done.stdout == "date=2025-06-30\n", done.stderr
    assert page.stdout == "True ['date=2025-06-30']\n", page.stderr


@pytest.mark.slow
def test_a_source_a_target_a_candidate_and_a_network_of_a_package_are_used(environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=SECONDS
    )

    assert done.stdout == "1 {} build\n", done.stderr


@pytest.mark.slow
def test_a_function_of_a_package_gives_the_same_features_in_a_batch_and_online(environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FEATURES], env=environment, capture_output=True, text=True, timeout=SECONDS
    )

    assert done.stdout == "[0.0, 4.5, 4.5, 8.0, 8.0, 8.75, 8.75, 8.75] 4 0\n", done.stderr
