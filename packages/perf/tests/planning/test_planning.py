"""The planner against published figures, and against what cannot be."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from nightshift.runtime.errors import UserError
from nightshift_perf.hardware import gpu, gpus
from nightshift_perf.planning import fitting, memory, published, search, timing
from nightshift_perf.planning.efficiency import TABLE as TABLE_OF_SHARES
from nightshift_perf.planning.efficiency import efficiency
from nightshift_perf.planning.layout import Checkpointing, Cluster, ParallelLayout, TrainerKind
from nightshift_perf.planning.models import preset

NODE = Cluster(gpu("h100-80gb"), 1, 8, 50e9)
MEGATRON = ParallelLayout(16, sequence_parallel=True, trainer=TrainerKind.MEGATRON)

TABLE = published.points()
# elsewhere what is computed again in the backward pass is not published
WITH_LAYOUTS = ("llm-foundry", "torchtitan", "ibm-fsdp", "megatron-lm")


def test_the_speeds_of_a_source_that_the_fit_has_not_seen_are_met_within_10_percent_and_most_within_25() -> None:
    error = published.measure_error(TABLE)

    assert error.points > 300 and error.sources > 8
    assert error.median < 0.1
    assert error.tail < 0.25
    page = Path("packages/perf/docs/planning.md").read_text()
    assert f"within {error.median:.1%}, and 90 % within {error.tail:.1%}" in page


@pytest.mark.slow
def test_the_table_of_shares_is_what_the_fit_to_the_points_gives() -> None:
    table = yaml.safe_load(TABLE_OF_SHARES.read_text())
    seen = [point for point in TABLE if point.is_fitted and point.source != "nemo"]

    assert fitting.fit_shares(seen, table["given"]) == pytest.approx(table["fitted"]["nemo"], rel=0.02)
    assert set(table["fitted"]) == {"all", *(point.source for point in TABLE if point.is_fitted)}


@pytest.mark.slow
def test_the_page_of_points_is_that_of_the_table() -> None:
    page = Path("packages/perf/docs/planning-points.md").read_text()

    assert page.splitlines() == "\n".join(published.page(TABLE)).splitlines()


def test_a_layout_that_somebody_has_run_fits() -> None:
    refused = [point.name for point in TABLE if point.source in WITH_LAYOUTS and not point.plan.fits]

    assert not refused


@pytest.mark.parametrize(
    ("name", "nodes", "batch", "fixed"),
    (
        # Llama Team, The Llama 3 Herd of Models, 2024, table 4: nothing is recomputed
        ("llama3-405b", 1024, 2048, {"tensor": 8, "pipeline": 16, "checkpointing": Checkpointing.NONE}),
        ("llama2-70b", 2, 32, {"tensor": 4, "pipeline": 4}),  # NeMo 24.12, fine-tuning
    ),
)
def test_what_a_published_layout_leaves_open_is_searched(
    name: str, nodes: int, batch: int, fixed: dict[str, Any]
) -> None:
    like = replace(MEGATRON, batch=batch, **fixed)

    proposal = search.propose_plan(preset(name), replace(NODE, nodes=nodes), like, fixed)

    assert proposal.fits and {field: getattr(proposal.layout, field) for field in fixed} == fixed


def test_counted_states_are_those_of_deepspeeds_functions() -> None:
    states = [point for point in TABLE if point.source == "deepspeed"]

    assert [point.prediction for point in states] == pytest.approx([point.value for point in states], rel=1e-3)


def test_every_point_names_its_source() -> None:
    assert {point.source for point in TABLE} == set(yaml.safe_load(published.SOURCES.read_text()))


@pytest.mark.parametrize(
    ("name", "billions"),
    (
        ("bert-base", 0.1095),
        ("llama2-7b", 6.74),
        ("llama2-13b", 13.02),
        ("llama3-8b", 8.03),
        ("llama3-70b", 70.55),
        ("llama3-405b", 405.9),
        ("gpt-175b", 175),
        ("megatron-530b", 530),
        ("mpt-7b", 6.66),
        ("mpt-30b", 29.98),
        ("llama2-70b", 69),
        ("nemotron-340b", 341),
        ("resnet50", 0.02556),
    ),
)
def test_a_preset_has_as_many_parameters_as_its_model(name: str, billions: float) -> None:
    assert preset(name).parameters == pytest.approx(billions * 1e9, rel=0.01)


def test_the_flops_of_a_gpt_are_those_of_the_megatron_paper() -> None:
    model = preset("megatron-530b")
    tokens, hidden, layers = 2048, 20480, 105

    # 96 of which a quarter repeats the forward pass
    wanted = 72 * tokens * layers * hidden**2 * (1 + tokens / (6 * hidden) + 51200 / (12 * layers * hidden))

    assert timing.model_flops(model) == pytest.approx(wanted, rel=1e-3)


def test_a_layer_keeps_the_activations_of_korthikantis_formulas() -> None:
    model = preset("gpt-175b")
    tokens, hidden, heads = 2048, 12288, 96
    plain = ParallelLayout(1, flash=False)

    def kept(layout: ParallelLayout) -> float:
        return memory.count_kept_bytes(model, model.layer(fused=True), layout) / (tokens * hidden)

    scores = 5 * heads * tokens / hidden
    assert kept(plain) == pytest.approx(34 + scores)
    assert kept(replace(plain, tensor=8)) == pytest.approx(10 + (24 + scores) / 8)
    assert kept(replace(plain, tensor=8, sequence_parallel=True)) == pytest.approx((34 + scores) / 8)
    assert kept(replace(plain, checkpointing=Checkpointing.FULL)) == pytest.approx(2)


def test_the_more_is_sharded_or_computed_again_the_less_memory_is_needed() -> None:
    model = preset("llama3-8b")

    by_zero = [memory.estimate_memory(model, NODE, replace(MEGATRON, zero=zero)).total for zero in range(4)]
    by_checkpointing = [
        memory.estimate_memory(model, NODE, replace(MEGATRON, zero=3, checkpointing=extent)).total
        for extent in Checkpointing
    ]

    assert by_zero == sorted(by_zero, reverse=True)
    assert by_checkpointing == sorted(by_checkpointing, reverse=True)
    assert timing.estimate(model, NODE, ParallelLayout(16, zero=3, checkpointing=Checkpointing.FULL)).compute > (
        timing.estimate(model, NODE, ParallelLayout(16, zero=3)).compute
    )


def test_a_pipelines_bubble_shrinks_with_micro_batches_and_chunks() -> None:
    assert timing.bubble(ParallelLayout(64, pipeline=8), 16) == 7 / 16
    assert timing.bubble(ParallelLayout(64, pipeline=8, interleave=4), 16) == 7 / 64


def test_copies_of_sharded_states_take_more_memory_and_less_of_a_slow_network() -> None:
    model, cluster = preset("llama3-8b"), replace(NODE, nodes=4, network=6.25e9)
    whole, hybrid = (
        search.plan(model, cluster, replace(MEGATRON, batch=128, zero=3, shard=shard, checkpointing=Checkpointing.FULL))
        for shard in (32, 8)
    )

    assert whole.timing == search.plan(model, cluster, replace(whole.layout, shard=0)).timing
    assert hybrid.memory.states > 3 * whole.memory.states
    assert hybrid.timing.data < whole.timing.data / 3

    slow = search.plan(model, replace(cluster, network=1e9), hybrid.layout)
    assert slow.timing.data > 1.5 * hybrid.timing.data  # gradients of the copies are still added up over it


def test_layers_that_stages_do_not_divide_leave_the_fullest_stage_to_wait_for() -> None:
    model, cluster = preset("llama3-405b"), replace(NODE, nodes=64)

    uneven = search.plan(model, cluster, replace(MEGATRON, batch=256, tensor=8, pipeline=8, zero=3))

    even = search.plan(replace(model, layers=128), cluster, uneven.layout)
    assert uneven.timing.compute == even.timing.compute
    assert even.memory.activations * 120 / 128 == pytest.approx(uneven.memory.activations)  # its first stage has 7


def test_logits_are_split_by_tensor_parallelism_and_sequences_by_context_parallelism() -> None:
    model = preset("nemotron-8b")
    whole, split = (memory.activations(model, NODE, replace(MEGATRON, tensor=size)) for size in (1, 8))
    shared = memory.activations(model, NODE, replace(MEGATRON, context=8))

    assert split < whole / 7
    assert shared == whole / 8


def test_a_gpu_whose_architecture_was_not_fitted_is_said_to_be_so() -> None:
    fitted = {kind.name for kind in gpus().values() if efficiency(kind).is_fitted}

    assert {"a100-80gb", "h100-80gb", "b200-180gb"} <= fitted
    assert not fitted & {"v100-32gb", "t4", "l4", "l40s"}


def test_a_layout_that_does_not_fit_is_refused_with_one_that_does() -> None:
    model = preset("llama3-8b")

    with pytest.raises(UserError, match=r"needs \d+\.\d GiB a GPU .* has 79.1; this would fit, .*--zero [23]") as error:
        search.propose_plan(
            model, NODE, ParallelLayout(16), ("zero", "checkpointing", "micro_batch", "pipeline", "tensor")
        )

    words = str(error.value).split("step: ")[1].split()
    fields = {
        name.removeprefix("--").replace("-", "_"): value for name, value in zip(words[::2], words[1::2], strict=True)
    }
    checkpointing = Checkpointing(fields.pop("checkpointing"))
    layout = ParallelLayout(16, checkpointing=checkpointing, **{name: int(value) for name, value in fields.items()})
    assert search.plan(model, NODE, layout).fits


def test_a_model_that_fits_in_no_layout_is_refused_with_the_nodes_it_takes() -> None:
    model = preset("llama3-70b")

    with pytest.raises(UserError, match=r"no layout .* fits 8 x h100-80gb; it would on 4 nodes with --batch 32"):
        search.propose_plan(model, NODE, ParallelLayout(32))

    assert search.propose_plan(model, replace(NODE, nodes=4), ParallelLayout(32)).fits
    assert search.fastest(model, NODE, ParallelLayout(32)) is None


def test_the_proposal_is_at_least_as_fast_as_every_published_layout_that_fits() -> None:
    model, cluster = preset("llama3-8b"), Cluster(gpu("h100-96gb-500w"), 16, 8, 50e9)
    theirs = replace(MEGATRON, batch=256, micro_batch=2, zero=3, checkpointing=Checkpointing.SELECTIVE)

    assert search.propose_plan(model, cluster, theirs).timing.step <= search.plan(model, cluster, theirs).timing.step


@pytest.mark.parametrize(
    ("layout", "message"),
    (
        (ParallelLayout(16, tensor=3), r"tensor is 3, which does not divide the model's heads, 32; give 2 or 4"),
        (
            ParallelLayout(16, tensor=16),
            r"tensor is 16, which does not divide the model's key and value heads, 8",
        ),
        (ParallelLayout(16, zero=1), r"zero is 1; the trainer has 0, 2 and 3 \(FSDP\): give one of these"),
        (ParallelLayout(16, zero=2, tensor=2), r"zero is 2 beside tensor, pipeline or context"),
        (
            ParallelLayout(16, context=2),
            r"context is 2 with zero 0; the trainer shares parameters with it: give zero 3",
        ),
        (ParallelLayout(16, context=4, zero=3, shard=2), r"shard is 2; give a multiple of context, 4"),
        (ParallelLayout(16, pipeline=2, interleave=4), r"interleave is 4; the trainer has 1 or 2 chunks"),
        (ParallelLayout(4, pipeline=8), r"pipeline is 8, which 4 micro-batches cannot fill; give as many or less"),
        (ParallelLayout(16, checkpointing=Checkpointing.ATTENTION), r"checkpointing is attention, which the trainer"),
        (ParallelLayout(16, precision="fp8"), r"precision is fp8, which the trainer does not have: give bf16"),
        (ParallelLayout(16, tensor=2, precision="fp16"), r"precision is fp16; .* give bf16, or zero 0 alone"),
        (
            ParallelLayout(16, zero=3, pipeline=2, trainer=TrainerKind.DEEPSPEED),
            r"zero is 3 beside pipeline, which DeepSpeed does not do: give 0 or 1",
        ),
        (
            ParallelLayout(16, pipeline=8, interleave=8),
            r"pipeline x interleave is 64, and the model has 32 layers; give as many or",
        ),
        (ParallelLayout(16, context=3), r"context is 3, which does not divide the model's sequence, 8192; give 2 or 4"),
        (ParallelLayout(12), r"replicas x micro_batch is 8, which does not divide batch, 12; give 6 or 12"),
        (ParallelLayout(16, zero=4), r"zero is 4; give 0, 1, 2 or 3"),
        (ParallelLayout(16, zero=3, shard=3), r"shard is 3, which does not divide the GPUs with .*, 8; give 2 or 4"),
        (ParallelLayout(16, zero=2, shard=4), r"shard is 4 with zero 2; give zero 3 \(FSDP\) with it"),
        (ParallelLayout(12, pipeline=8, interleave=2), r"interleave is 2 with 12 micro-batches and 8 stages"),
        (ParallelLayout(16, micro_batch=0), r"micro_batch is 0; give 1 or more"),
        (ParallelLayout(16, precision="fp4"), r"precision is 'fp4'; h100-80gb has fp32, tf32"),
    ),
)
def test_a_layout_that_cannot_be_is_refused_with_what_can(layout: ParallelLayout, message: str) -> None:
    with pytest.raises(UserError, match=message):
        search.plan(preset("llama3-8b"), NODE, layout)


def test_a_bert_is_split_by_a_published_trainer_only() -> None:
    model, layout = preset("bert-base"), ParallelLayout(16, tensor=2)

    with pytest.raises(UserError, match=r"for Llama-like models in this trainer; give 1, or --trainer megatron"):
        search.plan(model, NODE, layout)

    assert search.plan(model, NODE, replace(layout, trainer=TrainerKind.MEGATRON)).fits


def test_an_unknown_name_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(UserError, match=r"GPU 'h100-80' is not known; .*did you mean 'h100-80gb'"):
        gpu("h100-80")
    with pytest.raises(UserError, match=r"model 'llama3-8' is not known; .*did you mean 'llama3-8b'"):
        preset("llama3-8")
    with pytest.raises(UserError, match=r"tensor, context and pipeline are for transformers"):
        search.plan(preset("resnet50"), NODE, ParallelLayout(16, tensor=2))


def test_every_gpu_of_the_table_has_a_source_and_a_date() -> None:
    for kind in gpus().values():
        assert kind.source.startswith("https://") and kind.date >= "2026"
        assert kind.bandwidth < kind.peak("fp16") and kind.memory > 14 * 2**30
