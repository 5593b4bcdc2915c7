"""The step on real partitions."""

import json
import logging
import re
import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch

from components.training import component
from components.training.__main__ import _checkpoints, body
from nightshift.contracts import package
from nightshift.contracts.section import read_section
from nightshift.runtime.context import StepContext
from nightshift.runtime.errors import UserError
from nightshift.runtime.lineage import code_version
from nightshift.storage import locks
from nightshift.tabular.inputs import FrameScorer
from nightshift_testkit.processes import started, wait_until
from tests.components.training import samples

pytestmark = pytest.mark.slow


def flags(folder, models=None, device="cpu"):
    features = samples.write_features(folder, samples.features())
    roots = {name: str(folder / name) for name in ("lake", "registry", "runs", "audit", "checkpoints")}
    state = json.dumps(roots | {"target": "local"})
    return samples.flags(models, device=device, features=features, state=state, model=str(folder / "model"))


def test_a_training_leaves_a_model_that_scores_rows_and_reports_its_validation_metrics(tmp_path):
    output = tmp_path / "output.json"
    kfp_input = {"outputs": {"outputFile": str(output), "artifacts": {"model": {"artifacts": [{"name": "model"}]}}}}

    done = samples.run("training", [*flags(tmp_path), "--executor-input", json.dumps(kfp_input)])

    assert done.returncode == 0, done.stderr
    model = package.load(str(tmp_path / "model"))
    assert set(model.candidates) == set(samples.MODELS)
    for name in model.candidates:
        scores = FrameScorer(str(tmp_path / "model"), model, name).score(samples.features())
        assert 0 <= scores.min() < scores.max() <= 1
        assert f"{name}: validation average precision 0." in done.stderr
    assert len(package.read_reference(str(tmp_path / "model"))) == 300
    section = read_section(str(tmp_path / "model"))
    assert [row.cells[0] for row in section.blocks[1].rows if row.tag == "selected"] == [model.selected]
    assert {row.cells[0] for row in section.blocks[1].rows} == set(samples.MODELS)
    (chart,) = (block for block in section.blocks if block.kind == "chart")
    assert {series.name: series.points for series in chart.series} == {"net": model.candidates["net"].losses}
    assert [step for step, _ in model.candidates["net"].losses] == list(range(1, 51))
    assert model.lineage.events_sha256 == "e" * 64
    (artifact,) = json.loads(output.read_text())["artifacts"]["model"]["artifacts"]
    expected = model.candidates[model.selected].validation["average_precision"]
    assert artifact["metadata"]["average_precision"] == expected


def scores(folder):
    model = package.load(str(folder / "model"))
    return {
        name: FrameScorer(str(folder / "model"), model, name).score(samples.features()) for name in model.candidates
    }


def test_the_processes_that_a_config_names_are_started_and_train_the_same_network_together(tmp_path):
    argv, output = flags(tmp_path, {name: samples.MODELS[name] for name in ("net", "line")}), tmp_path / "output.json"
    kfp_input = {"outputs": {"outputFile": str(output), "artifacts": {"model": {"artifacts": [{"name": "model"}]}}}}
    layout = changed(argv, task={"trainer": {"processes": 2, "shard": 2}})

    done = samples.run("training", [*layout, "--executor-input", json.dumps(kfp_input)])

    assert done.returncode == 0, done.stderr
    assert "2 processes train together" in done.stderr
    (artifact,) = json.loads(output.read_text())["artifacts"]["model"]["artifacts"]
    assert artifact["metadata"]["average_precision"] > 0
    assert done.stderr.count("net: validation average precision") == 1
    together = scores(tmp_path)
    body(StepContext(component.training.parser().parse_args(argv)))
    alone = scores(tmp_path)
    assert set(together) == {"net", "line"}
    assert np.array_equal(together["line"], alone["line"])
    assert np.abs(together["net"] - alone["net"]).max() < 1e-5


def test_a_training_that_is_preempted_ends_with_75_and_the_next_one_resumes_and_leaves_the_same_model(tmp_path):
    long = samples.MODELS["net"]["parameters"] | {"epochs": 1000}
    words = flags(tmp_path, {"net": {"kind": "mlp", "parameters": long}, "line": samples.MODELS["line"]})
    command = [sys.executable, "-W", "error", "-m", "components.training", *words]
    with started(command, stderr=subprocess.PIPE, text=True) as step:
        for line in step.stderr:
            if line == "net: fitting 300 rows\n":
                break
        # it heeds the signal from the first step on
        wait_until(lambda: heeds(Path(f"/proc/{step.pid}/status").read_text()), "it heeds")
        step.send_signal(signal.SIGTERM)
        _, error = step.communicate(timeout=300)
    assert step.returncode == 75, error
    assert not (tmp_path / "model").exists()
    assert re.search(r"training: preempted; step \d+ of 10000 is saved in ", error)

    more = changed(words, costs={"budget_hours": 9}, task={"trainer": {"shard": 2}})
    done = samples.run("training", more)

    assert done.returncode == 0, done.stderr
    assert "resuming after step" in done.stderr
    resumed = package.load(str(tmp_path / "model")).sha256
    assert not any((tmp_path / "checkpoints").rglob("*.distcp"))
    assert samples.run("training", words).returncode == 0
    assert resumed == package.load(str(tmp_path / "model")).sha256


def changed(argv, **sections):
    """Flags with a config in which some fields of some sections are different."""
    words = list(argv)
    at = words.index("--config") + 1
    config = json.loads(words[at])
    words[at] = json.dumps(config | {name: config.get(name, {}) | fields for name, fields in sections.items()})
    return words


def test_a_training_resumes_what_the_same_code_began_on_the_same_rows_and_settings(tmp_path):
    def root(argv, code="0.3.0"):
        return _checkpoints(StepContext(component.training.parser().parse_args(argv)), code)

    argv = flags(tmp_path)
    usual = root(argv)

    assert root(changed(argv, costs={"budget_usd": 9}, drift={"window_days": 3}, evaluation={"top_k": 9})) == usual
    assert root(changed(argv, task={"trainer": {"pipeline": 2, "checkpoint_seconds": 9}})) == usual
    others = {
        usual,
        root(argv, code="0.2.1"),
        root([*argv, "--device", "cuda"]),
        root([*argv, "--date", "2024-03-21"]),
        root(changed(argv, task={"seed": 1})),
        root(changed(argv, task={"candidates": {"line": samples.MODELS["line"]}})),
        root(changed(argv, protocol={"train_days": 3})),
        root([*argv, "--features", samples.write_features(tmp_path / "other", samples.features(seed=1))]),
    }
    assert len(others) == 8


def heeds(status):
    """Whether a process has a handler for SIGTERM."""
    caught = int(re.search(r"SigCgt:\s+([0-9a-f]+)", status)[1], 16)
    return caught >> (signal.SIGTERM - 1) & 1


@pytest.mark.parametrize("local", ["0", "1"])
def test_a_mistake_that_another_machine_finds_is_said_there_by_its_first_process(tmp_path, monkeypatch, caplog, local):
    caplog.set_level(logging.INFO, "nightshift")  # which processes that are not the first change
    for name, value in {"WORLD_SIZE": "1", "RANK": "3", "LOCAL_RANK": local}.items():
        monkeypatch.setenv(name, value)
    args = component.training.parser().parse_args([*flags(tmp_path), "--features", str(tmp_path / "missing.json")])

    with pytest.raises(UserError, match=r"missing\.json") if local == "0" else nullcontext():
        assert body(StepContext(args)) == {}


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_cuda_without_a_gpu_ends_in_one_line_and_exit_code_2(tmp_path):
    done = samples.run("training", flags(tmp_path, device="cuda"))

    assert done.returncode == 2
    assert done.stderr.startswith("training: --device cuda")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("root", ["model", "checkpoints"])
def test_a_place_that_cannot_be_written_to_is_named_before_anything_is_fitted(tmp_path, root, caplog):
    caplog.set_level("INFO", "nightshift")
    argv = flags(tmp_path)
    (tmp_path / root).write_text("a file where a folder has to be")

    with pytest.raises(UserError, match=rf"{tmp_path}/{root}"):
        body(StepContext(component.training.parser().parse_args(argv)))

    assert not caplog.messages


def test_of_two_processes_with_the_same_training_the_second_ends_in_one_sentence(tmp_path):
    context = StepContext(component.training.parser().parse_args(flags(tmp_path)))
    folder = Path(_checkpoints(context, code_version()))
    folder.mkdir(parents=True)

    with (
        locks.hold(folder / "lock"),
        pytest.raises(UserError, match=rf"another process runs the same training, with checkpoints in {folder}; wait"),
    ):
        body(context)
    body(context)

    assert not folder.exists()


def test_one_process_says_that_it_ignores_a_layout_of_several(tmp_path, caplog):
    argv = flags(tmp_path, {"net": samples.MODELS["net"]})

    body(StepContext(component.training.parser().parse_args(changed(argv, task={"trainer": {"shard": 2}}))))

    assert "{shard: 2}, and this one process ignores it; write task.trainer.processes: docs/" in caplog.text
