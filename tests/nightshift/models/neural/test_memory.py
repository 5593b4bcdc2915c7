"""The planner's memory of the trainer is what a process holds; `python -m benchmarks.trainer memory`: of 8."""

import pytest
from transformers import LlamaConfig, LlamaForCausalLM

from nightshift.config.neural import Recompute, Trainer
from nightshift.models.neural import devices
from nightshift.models.neural.replica import Replica
from nightshift_llm.recipes import llama
from nightshift_llm.recipes.llama import Llama
from tests.nightshift.models.neural import census


def compare(recipe: Llama) -> tuple[int, float]:
    """The bytes that a process holds, and those that the planner expects."""
    with devices.reproducible(0, 1):
        counted = census.count_peak(Replica(recipe, census.CPU))
    planned = census.plan_bytes(recipe, Trainer(), 1)
    assert planned == pytest.approx(counted, rel=0.05)
    return counted, planned


@pytest.mark.parametrize("recompute", Recompute)
def test_a_process_holds_what_the_planner_says_within_5_percent(recompute):
    compare(census.build(batch_size=32, microbatches=2, recompute=recompute))


def test_the_best_weights_and_their_average_are_a_copy_each():
    copies = {"validation": 0.2, "keep": "best", "ema_decay": 0.9}
    without, kept = (compare(census.build(batch_size=32, microbatches=2, **fields)) for fields in ({}, copies))

    weights = sum(weight.nbytes for weight in census.build().model().parameters())
    assert kept[1] - without[1] == 2 * weights
    assert kept[0] - without[0] == pytest.approx(2 * weights, rel=1e-3)  # an epoch has fewer rows


def test_tied_embeddings_take_as_much_as_two(tmp_path):
    shape = census.build(batch_size=32).shape.to_dict() | {"tie_word_embeddings": True}
    LlamaForCausalLM(LlamaConfig.from_dict(shape)).save_pretrained(tmp_path)
    fields = {"batch_size": 32, "microbatches": 2, "precision": "bf16", "pretrained": str(tmp_path)}
    tied = llama.build("parameters", census.SHAPE, fields)

    assert tied.shape.tie_word_embeddings
    assert compare(tied) == compare(census.build(batch_size=32, microbatches=2))
