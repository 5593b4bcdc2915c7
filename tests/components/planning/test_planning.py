"""The planner against published figures, and against what cannot be."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from components.common.errors import UserError
from components.common.hardware import gpu, gpus
from components.planning import memory, published, recipe, search, timing
from components.planning.layout import Checkpointing, Cluster, Layout
from components.planning.models import preset

DOCS = Path("docs/planning.md").read_text()
NODE = Cluster(gpu("h100-80gb"), 1, 8, 50e9)


@pytest.mark.parametrize("point", published.points(), ids=lambda point: point.name)
def test_a_published_figure_is_met_within_a_tenth_or_the_reason_stands_beside_it(point: published.Point) -> None:
    error = point.error()

    assert (abs(error) <= published.TOLERANCE) != bool(point.reason)
    assert point.source
    row = f"| {point.name} | {point.value:,g} {point.unit} | {point.predict():,.4g} | {100 * error:+z.1f} % |"
    assert row in DOCS, f"docs/planning.md lacks this line:\n{row}"


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
    plain = Layout(1, flash=False, sequence_parallel=False)

    def kept(layout: Layout) -> float:
        return memory.kept(model, model.layer(fused=True), layout) / (tokens * hidden)

    scores = 5 * heads * tokens / hidden
    assert kept(plain) == pytest.approx(34 + scores)
    assert kept(replace(plain, tensor=8)) == pytest.approx(10 + (24 + scores) / 8)
    assert kept(replace(plain, tensor=8, sequence_parallel=True)) == pytest.approx((34 + scores) / 8)
    assert kept(replace(plain, checkpointing=Checkpointing.FULL)) == pytest.approx(2)


def test_the_more_is_sharded_or_computed_again_the_less_memory_is_needed() -> None:
    model = preset("llama3-8b")

    by_zero = [memory.needed(model, NODE, Layout(16, zero=zero)).total for zero in range(4)]
    by_checkpointing = [
        memory.needed(model, NODE, Layout(16, zero=3, checkpointing=each)).total for each in Checkpointing
    ]

    assert by_zero == sorted(by_zero, reverse=True)
    assert by_checkpointing == sorted(by_checkpointing, reverse=True)
    assert timing.estimate(model, NODE, Layout(16, zero=3, checkpointing=Checkpointing.FULL)).compute > (
        timing.estimate(model, NODE, Layout(16, zero=3)).compute
    )


def test_a_pipelines_bubble_shrinks_with_micro_batches_and_chunks() -> None:
    assert timing.bubble(Layout(64, pipeline=8), 16) == 7 / 16
    assert timing.bubble(Layout(64, pipeline=8, interleave=4), 16) == 7 / 64


def test_a_layout_that_does_not_fit_is_refused_with_one_that_does() -> None:
    model = preset("llama3-8b")

    with pytest.raises(UserError, match=r"needs \d+\.\d GB a GPU .* has 80; this would fit, .*--zero 3") as error:
        search.fitting(model, NODE, Layout(16))

    words = str(error.value).split("step: ")[1].split()
    given = {
        name.removeprefix("--").replace("-", "_"): value for name, value in zip(words[::2], words[1::2], strict=True)
    }
    checkpointing = Checkpointing(given.pop("checkpointing"))
    layout = Layout(16, checkpointing=checkpointing, **{name: int(value) for name, value in given.items()})
    assert search.fitting(model, NODE, layout).fits


def test_a_model_that_fits_in_no_layout_is_refused_with_the_nodes_it_takes() -> None:
    model = preset("llama3-70b")

    with pytest.raises(UserError, match=r"no layout .* fits 8 x h100-80gb; it would on 4 nodes with --batch 32"):
        search.proposed(model, NODE, Layout(32))

    assert search.proposed(model, replace(NODE, nodes=4), Layout(32)).fits
    assert search.fastest(model, replace(NODE, nodes=2), Layout(32)) is None


def test_the_proposal_is_at_least_as_fast_as_every_published_layout_that_fits() -> None:
    model, cluster = preset("llama3-8b"), Cluster(gpu("h100-96gb-500w"), 16, 8, 50e9)
    theirs = Layout(256, micro_batch=2, zero=3, checkpointing=Checkpointing.SELECTIVE)

    assert search.proposed(model, cluster, theirs).timing.step <= search.fitting(model, cluster, theirs).timing.step


def test_a_recipe_says_what_was_planned() -> None:
    found = search.proposed(preset("llama3-8b"), NODE, Layout(16))

    written = yaml.safe_load(recipe.written(found, "llama3-8b"))

    layout = {name: value for name, value in written["layout"].items() if name not in ("data", "micro_batches")}
    assert Layout(**layout | {"checkpointing": Checkpointing(layout["checkpointing"])}) == found.layout
    assert written["expected"]["step_seconds"] == pytest.approx(found.timing.step, rel=1e-3)
    assert written["layout"]["data"] * written["layout"]["micro_batches"] * written["layout"]["micro_batch"] == 16


@pytest.mark.parametrize(
    ("layout", "said"),
    (
        (Layout(16, tensor=3), r"tensor is 3, which does not divide the model's heads, 32; give 2 or 4"),
        (
            Layout(16, pipeline=5),
            r"pipeline x interleave is 5, which does not divide the model's layers, 32; give 4 or 8",
        ),
        (Layout(12), r"replicas x micro_batch is 8, which does not divide batch, 12; give 6 or 12"),
        (Layout(16, zero=4), r"zero is 4; give 0, 1, 2 or 3"),
        (Layout(16, pipeline=2, zero=3), r"zero is 3 with a pipeline of 2 stages; zero is 0 or 1 there"),
        (Layout(12, pipeline=8, interleave=2), r"interleave is 2 with 12 micro-batches and 8 stages"),
        (Layout(16, micro_batch=0), r"micro_batch is 0; give 1 or more"),
        (Layout(16, precision="fp4"), r"precision is 'fp4'; h100-80gb has fp32, tf32"),
    ),
)
def test_a_layout_that_cannot_be_is_refused_with_what_can(layout: Layout, said: str) -> None:
    with pytest.raises(UserError, match=said):
        search.plan(preset("llama3-8b"), NODE, layout)


def test_an_unknown_name_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(UserError, match=r"GPU 'h100-80' is not known; .*did you mean 'h100-80gb'"):
        gpu("h100-80")
    with pytest.raises(UserError, match=r"model 'llama3-8' is not known; .*did you mean 'llama3-8b'"):
        preset("llama3-8")
    with pytest.raises(UserError, match=r"tensor and pipeline are for transformers"):
        search.plan(preset("resnet50"), NODE, Layout(16, tensor=2))


def test_every_gpu_of_the_table_has_a_source_and_a_date() -> None:
    for each in gpus().values():
        assert each.source.startswith("https://") and each.date.year >= 2026
        assert each.bandwidth < each.peak("fp16") and each.memory >= 16e9
