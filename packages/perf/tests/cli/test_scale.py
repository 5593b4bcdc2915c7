"""`nightshift perf scale` as a person calls it, with real processes."""

import json
import os
import re
from pathlib import Path

import pytest
import torch

from nightshift.config.neural import Trainer
from nightshift.models.neural.configured import ConfiguredNetwork
from nightshift.models.recipes.mlp import MLPParameters
from nightshift.runtime.errors import UserError
from nightshift_perf import run_rows
from nightshift_perf.replicas import RunRows, ScalingSpec
from tests.components.training import samples
from tests.pipelines.samples import called, config_file


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "trained", "fault", "title"),
    [
        # its buffers, the statistics of batches, are no reason to wait for each other
        ("digits", "resnet on cpu, 64 rows of 8 x 8 pixels", "slow-process", r"A straggler \(.*: Process 1 takes "),
        ("fraud", "mlp on cpu, 2048 rows of 19 inputs", "starved-loader", r"The data loader \("),
    ],
)
def test_a_planted_fault_is_found(
    config: str, trained: str, fault: str, title: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = trained.split()[3]
    assert called("perf", "scale", "--config", config, "--rows", rows, "--inject-fault", fault) == 0

    first, headings, one, two, *findings = capsys.readouterr().out.splitlines()
    assert first == f"{trained} a process and step"
    assert headings.split()[:4] == ["processes", "replicas", "rows/s", "efficiency"]
    assert [line.split()[:2] for line in (one, two)] == [["1", "1"], ["2", "2"]]
    assert one.split()[3] == "100.0%"
    assert [line for line in findings if re.match(rf"\d\. {title}", line)]


@pytest.mark.slow
def test_a_layout_of_four_processes_is_measured_with_its_bubble_beside_the_formula(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parameters = {"depth": 2, "width": 64, "heads": 2, "threads": 1, "batch_size": 16, "microbatches": 2}
    task = {
        "trainer": {"pipeline": 2, "tensor": 2},
        "candidates": {"llama": {"kind": "llama", "parameters": parameters}},
    }
    file = config_file(tmp_path, "tales", task=task)

    assert called("perf", "scale", "--config", file, "--processes", "4", "--json") == 0

    report = json.loads(capsys.readouterr().out)
    alone, four = report["points"]
    assert (report["rows"], report["layout"]) == (4, "tensor: 2, pipeline: 2")
    assert [(point["processes"], point["replicas"]) for point in (alone, four)] == [(1, 1), (4, 1)]
    assert (alone["bubble_share"], four["bubble_formula"]) == (None, pytest.approx(1 / 3))
    assert four["bubble_share"] == pytest.approx(1 / 3, abs=0.15)
    parts = ("computing", "loading", "bubble", "waiting", "sharing", "exchange")
    assert sum(four[f"{part}_seconds"] for part in parts) == pytest.approx(four["step_seconds"], rel=0.25)
    shares_cores = any("processes share" in caveat for caveat in report["caveats"])
    assert shares_cores == (len(os.sched_getaffinity(0)) < 4)


@pytest.mark.parametrize("action", ["scale", "tune"])
def test_processes_that_a_layout_does_not_divide_are_refused(action: str, tmp_path: Path) -> None:
    file = config_file(tmp_path, task={"trainer": {"shard": 2, "tensor": 2}})

    message = r"--processes is 6, and task.trainer \(shard: 2, tensor: 2\) has 4 share a network; give multiples"
    with pytest.raises(UserError, match=message):
        called("perf", action, "--config", file, "--processes", "4", "6")


def run_of(folder: Path, rows: int) -> tuple[Path, ScalingSpec]:
    """A run whose features step has ended, and a training with its rows."""
    run = folder / "runs" / "one"
    (run / "features").mkdir(parents=True)
    config = samples.settings({"net": {"kind": "mlp", "parameters": {"hidden": 8}}})
    record = {"pipeline": "training", "started": "2024-03-21T00:00:00", "complete": True}
    (run / "run.json").write_text(json.dumps(record | {"parameters": {"config": config, "date": samples.DATE}}))
    features = samples.write_features(folder, samples.features())
    (run / "features" / "features").write_bytes(Path(features).read_bytes())
    network = ConfiguredNetwork("mlp", {"inputs": 5}, MLPParameters(hidden=8).model_dump(mode="json"))
    trainer = Trainer().model_dump(mode="json")
    return run, ScalingSpec("net", network, trainer, "cpu", rows, run=RunRows(config, features, samples.DATE))


@pytest.mark.slow
def test_the_rows_of_a_run_are_trained_on_as_its_training_reads_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, job = run_of(tmp_path, rows=64)
    assert job.run
    file = tmp_path / "tiny.yaml"
    file.write_text(json.dumps(job.run.config))

    words = ["--run", run.name, "--workspace", str(tmp_path), "--rows", "64", "--processes", "1", "--json"]
    assert called("perf", "scale", "--config", str(file), *words) == 0

    (point,) = json.loads(capsys.readouterr().out)["points"]
    assert point["rows_per_second"] == pytest.approx(64 / point["step_seconds"])


def test_a_batch_that_is_larger_than_the_run_is_refused(tmp_path: Path) -> None:
    _, job = run_of(tmp_path, rows=10_000)
    assert job.run

    with pytest.raises(UserError, match="the run has 300 rows to train on, fewer than a batch of 10,000; give fewer"):
        run_rows.measure_run(job.run_request(job.run, 1), torch.device("cpu"))


def test_a_run_without_features_has_no_rows(tmp_path: Path) -> None:
    run, job = run_of(tmp_path, rows=64)
    assert job.run
    (run / "features" / "features").unlink()
    (tmp_path / "tiny.yaml").write_text(json.dumps(job.run.config))
    words = ["--config", str(tmp_path / "tiny.yaml"), "--run", run.name, "--workspace", str(tmp_path)]

    with pytest.raises(UserError, match=r"has no features/features; name a run whose features step has ended"):
        called("perf", "scale", *words)
