"""The step on real partitions."""

import gzip
import json
import logging

import pytest
import torch

from components.common.contracts.section import read_section
from components.common.errors import UserError
from components.profiling.__main__ import body, parser
from tests.components.training import samples


def flags(folder, models=None, device="cpu"):
    features = samples.write_features(folder, samples.features())
    return samples.flags(models, device=device, features=features, profile=str(folder / "profile"))


def read(folder):
    return json.loads((folder / "profile" / "profile.json").read_text())


def test_a_profile_and_a_trace_are_written_and_nothing_but_progress_is_said(tmp_path):
    done = samples.run("profiling", flags(tmp_path))

    assert done.returncode == 0, done.stderr
    assert read(tmp_path)["batch_size"] == samples.MODELS["net"]["parameters"]["batch_size"]
    assert 0 < read(tmp_path)["data_wait_share"] < 1
    assert len(read(tmp_path)["top_operations"]) == 10
    _, facts, operations = read_section(str(tmp_path / "profile")).blocks
    assert facts.facts[0].value == read(tmp_path)["rows_per_second"]
    assert len(operations.rows) == 10
    trace = (tmp_path / "profile" / "trace.json.gz").read_bytes()
    assert len(trace) < 3_000_000
    assert json.loads(gzip.decompress(trace))["traceEvents"]
    assert len(done.stderr.splitlines()) == 2


def test_a_config_without_an_mlp_gets_the_defaults_and_is_told(tmp_path, caplog):
    with caplog.at_level(logging.INFO, "nightshift"):
        metrics = body(parser().parse_args(flags(tmp_path, {"line": samples.MODELS["line"]})))

    assert "no model of kind mlp; measuring one with default parameters" in caplog.text
    assert read(tmp_path)["batch_size"] == 256
    assert metrics == {name: read(tmp_path)[name] for name in ("rows_per_second", "data_wait_share")}


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_cuda_without_a_gpu_is_refused_and_leaves_nothing(tmp_path):
    with pytest.raises(UserError, match="--device cuda"):
        body(parser().parse_args(flags(tmp_path, device="cuda")))
    assert not (tmp_path / "profile").exists()
