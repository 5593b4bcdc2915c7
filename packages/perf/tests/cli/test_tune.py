"""`nightshift perf tune` and `nightshift perf collectives` as a person calls them, with real processes."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from nightshift.config import parse
from nightshift.config.neural import Trainer
from nightshift.models.neural import nccl_tests, simulated
from nightshift.models.neural.collectives import describe_timing
from nightshift.models.neural.trial import StretchTimer
from nightshift.runtime.errors import UserError
from nightshift_perf.cli.tune import find_network, list_changes, width
from nightshift_perf.traces import analysis, read
from nightshift_perf.tuning import Tuned, Value, Variant
from nightshift_testkit.processes import SECONDS, engine
from pipelines import configs
from pipelines.configs import edits
from tests.pipelines.samples import called, config_file

NETWORK = "parameters: {hidden: 256, layers: 1, epochs: 15, batch_size: 256, learning_rate: 0.006}"


def config(folder: Path, network: str = "parameters: {hidden: 8, batch_size: 4}") -> Path:
    file = folder / "mine.yaml"
    text = configs.find_file("fraud").read_text()
    assert NETWORK in text
    file.write_text(text.replace(NETWORK, f"{network}  # ours"))
    return file


@pytest.mark.slow
def test_a_batch_size_that_is_faster_is_written_into_the_config_with_its_comments_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = config(tmp_path)
    before = file.read_text()

    traces = tmp_path / "traces"
    words = ["--batch-size", "512", "--axes", "compression", "--rows", "1024", "--traces", str(traces)]
    assert called("perf", "tune", "--config", str(file), *words) == 0

    printed = capsys.readouterr().out
    assert file.read_text() == before.replace("batch_size: 4}  # ours", "batch_size: 512}  # ours")
    assert configs.load(str(file))["task"]["candidates"]["mlp"]["parameters"] == {"hidden": 8, "batch_size": 512}
    first, row, *_ = printed.splitlines()
    assert first == "mlp on cpu, 1,024 rows of 19 inputs"
    figures = r"[\d.]+ .?FLOP/s, \d+\.\d % of the CPU; faster"
    assert re.fullmatch(rf"  batch_size 512 +[\d,.]+ rows/s +\+[\d.]+ %  {figures}", row)
    assert "changes what is learned, so compare the models: batch_size" in printed
    assert f"written into {file}:\n" in printed
    for name in ("before", "after"):
        assert re.search(rf"^longest {name}: \S.* [\d.]+ %, \S.* [\d.]+ %, \S.* [\d.]+ %$", printed, re.M)
        profiled = analysis.analyze([read.read(str(traces / f"{name}.json.gz"))], analysis.Known())
        assert profiled.step_ms
        assert profiled.step_ms > 0


@pytest.mark.parametrize(
    ("name", "kind", "small", "wide"),
    [
        ("digits", "resnet", {"stages": "1", "width": 4}, "8 x 8 pixels"),
        ("topics", "bert", {"width": 4, "heads": 1, "layers": 1}, "32 tokens"),
    ],
)
def test_networks_of_images_and_of_texts_are_trained_too(
    name: str, kind: str, small: dict[str, Any], wide: str, tmp_path: Path
) -> None:
    candidate = {"kind": kind, "parameters": {**small, "batch_size": 4, "threads": 1}}
    config = parse(configs.load(config_file(tmp_path, name, task={"candidates": {"net": candidate}})))

    network = find_network(config, "net", None)

    assert width(network.shape) == wide
    with simulated.training({**vars(network), "rows": 8, "trainer": {}}, torch.device("cpu")) as training:
        assert StretchTimer(training).stretch()["rows"] > 0


def test_a_frozen_network_has_no_training_to_make_faster(tmp_path: Path) -> None:
    frozen = {"kind": "bert", "parameters": {"pretrained": "somewhere", "frozen": True}}
    file = config_file(tmp_path, "topics", task={"candidates": {"frozen": frozen}})

    with pytest.raises(UserError, match=r"candidates\.frozen: its network is frozen, so there is no training"):
        called("perf", "tune", "--config", file)


def test_where_nothing_is_left_to_try_the_config_stays_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = config(tmp_path)
    before = file.read_text()

    assert called("perf", "tune", "--config", str(file), "--axes", "recompute", "microbatches") == 0

    assert "nothing is faster for sure; the config stays as it is" in capsys.readouterr().out
    assert file.read_text() == before


@pytest.mark.parametrize(("network", "is_dry"), [("parameters: {hidden: 8}", True), ("parameters:", False)])
def test_what_is_not_written_is_said_in_lines_to_copy(network: str, is_dry: bool, tmp_path: Path) -> None:
    file = config(tmp_path, network)
    before, trainer = file.read_text(), Trainer().model_dump(mode="json")
    changes: dict[str, Value] = {"processes": 2, "compression": "bf16", "compile": "default"}

    values = list_changes(Tuned(Variant({}, trainer, 2), changes, None), "mlp")
    first, *lines = edits.write(file, values, is_dry).splitlines()

    assert first == f"to write into {file}:"
    assert yaml.safe_load("\n".join(lines)) == {
        "task": {
            "trainer": {"processes": 2, "compression": "bf16"},
            "candidates": {"mlp": {"parameters": {"compile": "default"}}},
        }
    }
    assert file.read_text() == before


@pytest.mark.slow
def test_every_collective_is_measured_beside_a_log_of_nccl_tests_and_too_slow_ones_fail_after_the_table(
    tmp_path: Path,
) -> None:
    log = tmp_path / "alltoall_perf.txt"
    log.write_text(nccl_tests.row(describe_timing("all-to-all", 65536, seconds=1e-4, count=2), {}))
    words = ["--processes", "2", "--sizes", "1000", "65536", "--at-least", "100000", "--beside", str(log)]

    done = subprocess.run(
        engine("perf", "collectives", *words), capture_output=True, text=True, timeout=SECONDS, check=False
    )

    assert done.returncode == 1, done.stderr[-3000:]
    assert done.stderr.count("--at-least is 100000") == 1
    (tmp_path / "ours.txt").write_text(done.stdout)
    measured = nccl_tests.read_log(str(tmp_path / "ours.txt"))
    assert list(measured) == [(name, size) for name in nccl_tests.TESTS for size in (1000, 65536)]
    factors = {"all-reduce": 1.0, "send-receive": 1.0}
    for timing in measured.values():
        assert timing.algorithm == pytest.approx(timing.size / timing.seconds, abs=1e6, rel=0.1)
        assert timing.bus == pytest.approx(timing.algorithm * factors.get(timing.collective, 0.5), abs=1e6)
    beside = [line for line in done.stdout.splitlines() if " 100.00 " in line and line.split()[0] == "65536"]
    assert [line.split()[-3] for line in beside] == ["0.655"]
