"""The step on real partitions."""

import json
import subprocess
import sys

import pytest
import torch

from components.common.contracts import package
from components.common.contracts.section import read_section
from components.common.errors import UserError
from components.tabular.inputs import Scorer
from components.training.__main__ import body, parser
from tests.components.training import samples


def flags(folder, models=None, device="cpu"):
    features = samples.write_features(folder, samples.features())
    return samples.flags(models, device=device, features=features, model=str(folder / "model"))


def test_a_training_leaves_a_model_that_scores_rows_and_reports_its_validation_metrics(tmp_path):
    output = tmp_path / "output.json"
    asked = {"outputs": {"outputFile": str(output), "artifacts": {"model": {"artifacts": [{"name": "model"}]}}}}

    done = samples.run("training", [*flags(tmp_path), "--executor-input", json.dumps(asked)])

    assert done.returncode == 0, done.stderr
    model = package.load(str(tmp_path / "model"))
    assert set(model.candidates) == set(samples.MODELS)
    for name in model.candidates:
        scores = Scorer(str(tmp_path / "model"), model, name).score(samples.features())
        assert 0 <= scores.min() < scores.max() <= 1
        assert f"{name}: validation average precision 0." in done.stderr
    assert len(package.read_reference(str(tmp_path / "model"))) == 300
    section = read_section(str(tmp_path / "model"))
    assert [row.cells[0] for row in section.blocks[1].rows if row.tag == "selected"] == [model.selected]
    assert {row.cells[0] for row in section.blocks[1].rows} == set(samples.MODELS)
    assert model.lineage.events_sha256 == "e" * 64
    (artifact,) = json.loads(output.read_text())["artifacts"]["model"]["artifacts"]
    expected = model.candidates[model.selected].validation["average_precision"]
    assert artifact["metadata"]["average_precision"] == expected


@pytest.mark.slow
def test_under_torchrun_the_first_process_alone_trains_the_same_model(tmp_path):
    given = flags(tmp_path, {"net": samples.MODELS["net"]})
    words = ["--standalone", "--nproc-per-node", "2", "-m", "components.training", *given]
    command = [sys.executable, "-m", "torch.distributed.run", *words]

    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)

    assert done.returncode == 0, done.stderr
    assert "rank 1 of 2 has nothing to do" in done.stderr
    assert done.stderr.count("net: validation average precision") == 1
    distributed = package.load(str(tmp_path / "model")).sha256
    body(parser().parse_args(given))
    assert distributed == package.load(str(tmp_path / "model")).sha256


def test_a_wrong_parameter_leaves_no_model(tmp_path):
    models = {"line": {"kind": "logistic_regression", "parameters": {"c": 1}}}

    with pytest.raises(UserError, match=r"task\.candidates\.line\.parameters\.c: unknown"):
        body(parser().parse_args(flags(tmp_path, models)))
    assert not (tmp_path / "model").exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_cuda_without_a_gpu_ends_in_one_line_and_exit_code_2(tmp_path):
    done = samples.run("training", flags(tmp_path, device="cuda"))

    assert done.returncode == 2
    assert done.stderr.startswith("training: --device cuda")
    assert not (tmp_path / "model").exists()
