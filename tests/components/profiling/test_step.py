"""The step after a real training, on real partitions."""

import gzip
import json

import pytest
import torch

from components.profiling.__main__ import body
from components.profiling.component import profiling
from components.training import __main__ as training_step
from components.training.component import training
from nightshift.contracts import package
from nightshift.contracts.profile import Profile
from nightshift.runtime.context import StepContext
from nightshift.runtime.errors import UserError
from tests.components.training import samples

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Flags of the step, by which the folder lies that training has left."""
    folder = tmp_path_factory.mktemp("trained")
    features, model = samples.write_features(folder, samples.features()), str(folder / "model")
    roots = {name: str(folder / name) for name in ("lake", "registry", "runs", "audit", "checkpoints")}
    state = json.dumps(roots | {"target": "local"})
    flags = samples.flags(device="cpu", features=features, model=model, state=state)
    training_step.body(StepContext(training.parser().parse_args(flags)))
    return {"features": features, "model": model}


def flags(trained, folder, device="cpu"):
    return samples.flags(device=device, profile=str(folder / "profile"), **trained)


def test_the_selected_model_is_profiled_and_nothing_but_progress_is_printed(trained, tmp_path):
    done = samples.run("profiling", flags(trained, tmp_path))

    assert done.returncode == 0, done.stderr
    profile, model = Profile.read(str(tmp_path / "profile/profile.json")), package.load(trained["model"])
    assert (profile.model, profile.kind) == (model.selected, model.candidates[model.selected].kind)
    assert profile.reproduced
    trace = (tmp_path / "profile" / "trace.json.gz").read_bytes()
    assert len(trace) < 3_000_000
    assert json.loads(gzip.decompress(trace))["traceEvents"]
    assert len(done.stderr.splitlines()) == 2


def test_its_metrics_are_the_rates(trained, tmp_path):
    metrics = body(StepContext(profiling.parser().parse_args(flags(trained, tmp_path))))
    profile = Profile.read(str(tmp_path / "profile/profile.json"))
    assert metrics["rows_per_second"] == profile.rows_per_second
    rates = [metrics["single_rows_per_second"], metrics["scored_rows_per_second"]]
    assert rates == [timing.rows_per_second for timing in profile.scoring]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_cuda_without_a_gpu_is_refused_and_leaves_nothing(trained, tmp_path):
    with pytest.raises(UserError, match="--device cuda"):
        body(StepContext(profiling.parser().parse_args(flags(trained, tmp_path, device="cuda"))))
    assert not (tmp_path / "profile").exists()
