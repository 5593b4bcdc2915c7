"""A kind of candidate that an entry point alone makes known, from a config to an endpoint."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from nightshift.contracts import package
from tests.e2e.nights import config
from tests.e2e.third_party import INSTALLED, ThirdPartyWorkspace, read

pytestmark = pytest.mark.slow


def fraud(kind: str, **parameters: float) -> dict[str, Any]:
    value = config()
    value["task"]["candidates"] = {"mine": {"kind": kind, "parameters": parameters}}
    return value


@pytest.fixture
def workspace(tmp_path: Path):
    workspace = ThirdPartyWorkspace(tmp_path)
    yield workspace
    workspace.nightshift("stop")


def test_it_is_trained_gated_exported_and_served(workspace: ThirdPartyWorkspace) -> None:
    run = workspace.run("training", "2025-06-30", fraud("discriminant", shrinkage=0.2))

    verdict, model = read(run / "evaluation/evaluation/verdict.json"), package.load(str(run / "training/model"))
    assert verdict["decision"] == "pass"
    candidate = model.candidates["mine"]
    assert (candidate.kind, candidate.parameters, candidate.file) == ("discriminant", {"shrinkage": 0.2}, "mine.onnx")
    line = shlex.split(read(run / "summary.json")["curl"])
    done = subprocess.run(line, capture_output=True, check=True, timeout=1200)
    (prediction,) = json.loads(done.stdout)["predictions"]
    assert prediction["version"] == 1
    assert 0 <= prediction["score"] <= 1  # 0.0 in float32 of an ordinary payment, far from the plane


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (
            fraud("discriminate"),
            "task.candidates.mine.kind: is 'discriminate'; allowed: xgboost, mlp, logistic_regression, random_forest, "
            "lightgbm, catboost, ensemble, discriminant; did you mean 'discriminant'?",
        ),
        (
            fraud("discriminant", shrinkag=0.2),
            "task.candidates.mine.parameters.shrinkag: unknown; allowed here: shrinkage; did you mean 'shrinkage'?",
        ),
        (
            fraud("discriminant", shrinkage=2.0),
            "task.candidates.mine.parameters.shrinkage: Input should be less than or equal to 1, got 2.0",
        ),
    ],
)
def test_a_wrong_kind_and_wrong_parameters_are_refused_as_the_config_is_read(
    tmp_path: Path, config: dict[str, Any], says: str
) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(yaml.safe_dump(config))
    words = [sys.executable, "-m", "pipelines.cli", "config", "show", str(file)]
    done = subprocess.run(
        words, check=False, env=os.environ | {"PYTHONPATH": INSTALLED}, capture_output=True, text=True, timeout=1200
    )
    assert done.returncode == 2
    assert says in done.stderr
