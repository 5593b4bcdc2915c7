"""Every plan trains the network that one process trains."""

import re
import subprocess
import sys

import pytest
import torch

from nightshift.config.neural import Trainer
from nightshift.models.neural import mesh, pipeline
from nightshift.models.recipes import resnet
from nightshift.models.recipes.mlp import MLP, MLPParameters
from nightshift.runtime.errors import UserError
from pipelines import configs
from tests.nightshift.models.neural.plans import PLANS, TRANSFORMERS, PairParameters, Pairs

# what is computed or sent in fewer bits differs by more
COARSE = {"bf16": 0.01, "fp16": 0.01, "PowerSGD": 0.2}


# shipped config -> plan for 8 processes with its axes
TWINS = {"llama-10b": "llama, pp 2 x fsdp 4", "llama-13b": "llama, pp 2 x dp 2 x tp 2"}


def compare(processes: int, *plans: str) -> dict[str, float]:
    """By how much weights, and gradients, of each plan or of some differ from one process's."""
    command = [sys.executable, "-m", "tests.nightshift.models.neural.plans", str(processes), *plans]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1200)
    assert done.returncode == 0, done.stderr[-5000:]
    return {name: float(gap) for name, gap in re.findall(r"^(.+): ([\d.e-]+)$", done.stdout, re.MULTILINE)}


@pytest.mark.slow
@pytest.mark.parametrize(
    "processes",
    [2, 4],  # and 8: python -m benchmarks.trainer plans
)
def test_processes_that_share_a_training_in_any_way_get_the_weights_of_one_process(processes):
    gaps = compare(processes)

    decoders, towers = (
        {f"{name}, gradients" for name in PLANS[processes] if name.startswith(family)} for family in TRANSFORMERS
    )
    trained = {name for name in PLANS[processes] if not name.startswith("towers")}
    assert set(gaps) == trained | decoders | towers
    for name, gap in gaps.items():
        limits = [limit for word, limit in COARSE.items() if word in name]
        assert gap < (limits[0] if limits else 1e-6 if name in decoders else 1e-5), name
        assert not limits or gap > 1e-6, name  # fewer bits it has been


@pytest.mark.slow
def test_small_twins_of_the_shipped_configs_have_the_gradients_of_one_process():
    for name, plan in TWINS.items():
        shipped = Trainer(**configs.load(name)["task"]["trainer"]).model_dump(exclude_defaults=True)
        assert shipped.keys() - {"nodes"} == PLANS[8][plan][0].keys()

    gaps = compare(8, *TWINS.values())

    assert all(gaps[f"{plan}, gradients"] < 1e-6 for plan in TWINS.values())


@pytest.mark.parametrize(
    ("fields", "fit", "message"),
    [
        ({"shard": 3}, {}, "shard 3 x tensor 1 x pipeline 1 is 3, which does not divide 8 processes"),
        ({"shard": 2, "compression": "bf16"}, {}, "compression is for processes that only replicate"),
        ({"compression": "powersgd"}, {"precision": "fp16"}, "powersgd keeps gradients that fp16 .*; write precision"),
        ({"tensor": 2}, {"precision": "fp16"}, "fp16 scales the loss of whole networks only; write precision: bf16"),
        ({"zero": 3, "shard": 2}, {}, "shard 2 x tensor 1 x pipeline 1: zero: 3 is for all processes alike; write 1"),
        ({"zero": 2, "compression": "bf16"}, {}, "zero 2: compression is for processes that only replicate"),
        (
            {},
            {"compile": "cuda-graphs"},
            "compile is cuda-graphs, which 8 processes cannot have; write compile: default",
        ),
        ({"zero": 2}, {"precision": "fp16"}, "zero 2: fp16 scales the loss of whole networks only"),
        ({"shard": 2, "context": 4}, {}, "context: 4 does not divide the processes that share parameters; write shard"),
        ({"shard": 2, "pipeline": 2, "schedule": "zero-bubble"}, {}, "zero-bubble .* FSDP does not; write shard: 1"),
    ],
)
def test_what_processes_cannot_share_is_refused_with_the_reason(fields, fit, message):
    with pytest.raises(UserError, match=message):
        mesh.build_mesh(MLPParameters(**fit), Trainer(**fields), torch.device("cpu"), 8)


def test_a_loss_that_compares_rows_is_not_cut_into_stages():
    recipe = Pairs(5, PairParameters())
    with pytest.raises(UserError, match=r"the loss compares the rows of a batch, .*; write 1"):
        pipeline.check_pieces(recipe.model(), recipe.fit)


def test_a_network_is_cut_into_stages_of_whole_blocks_under_their_own_names():
    model = MLP(3, MLPParameters(hidden=4, layers=4)).model()

    parts = pipeline.stages(model, 3)

    assert [[name for name, _ in part.named_children()] for part in parts] == [["0"], ["1", "2"], ["3", "4"]]
    assert {name for part in parts for name in part.state_dict()} == set(model.state_dict())


def test_a_network_that_normalizes_over_a_batch_is_not_cut_into_stages():
    recipe = resnet.build("", {"side": 8, "channels": 1, "classes": 2}, {"width": 2})
    with pytest.raises(UserError, match=r"pipeline: this network normalizes over the rows of a batch, .*; write pip"):
        pipeline.check_pieces(recipe.model(), recipe.fit)


def test_more_stages_than_blocks_are_refused():
    with pytest.raises(UserError, match=r"pipeline: 2 blocks of layers cannot fill 4 stages; use fewer"):
        pipeline.stages(MLP(3, MLPParameters()).model(), 4)
