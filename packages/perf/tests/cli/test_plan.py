"""`nightshift perf plan` as a person calls it."""

import re
from pathlib import Path

import pytest
import yaml

from nightshift.runtime.errors import UserError
from nightshift_perf.cli import plan
from nightshift_perf.hardware import gpu
from nightshift_perf.planning import search
from nightshift_perf.planning.layout import Checkpointing, Cluster, ParallelLayout, TrainerKind
from nightshift_perf.planning.models import preset
from tests.pipelines.samples import called


def test_a_plan_is_printed_with_its_cost_and_written_as_a_recipe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "recipe.yaml"
    words = ["--model", "llama3-8b", "--gpu", "h100-80gb", "--batch", "16"]

    assert called("perf", "plan", *words, "--samples", "1e6", "--usd-per-gpu-hour", "3", "--output", str(file)) == 0

    printed = capsys.readouterr().out
    recipe = yaml.safe_load(file.read_text())
    hours = 1e6 / 16 * recipe["expected"]["step_seconds"] / 3600
    (cost,) = re.findall(r"([\d,.]+) USD", printed)
    assert float(cost.replace(",", "")) == pytest.approx(hours * 8 * 3, rel=1e-3)
    assert "layout   --micro-batch" in printed and recipe["cluster"]["gpu"] == "h100-80gb"


def test_this_trainer_is_planned_unless_another_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--model", "llama-10b", "--gpu", "a100-80gb", "--nodes", "2", "--gpus-per-node", "4", "--batch", "64"]

    assert called("perf", "plan", *words) == 0
    own = capsys.readouterr().out
    assert called("perf", "plan", *words, "--trainer", "megatron") == 0
    published = capsys.readouterr().out

    # 118 GiB in this trainer
    assert "71.6 of 79.1 GiB" in published and "--pipeline 1 --interleave 1 --zero 1" in published
    assert published.rstrip().endswith("--trainer megatron")
    assert "76.2 of 79.1 GiB" in own and "native" in own and "--zero 0" in own


def test_a_model_is_given_by_its_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--layers", "12", "--hidden", "768", "--heads", "12", "--vocabulary", "50257", "--sequence", "1024"]

    assert called("perf", "plan", *sizes, "--gpu", "l4", "--gpus-per-node", "1", "--batch", "8") == 0

    assert "0.163 billion" in capsys.readouterr().out


def test_a_recipe_says_what_was_planned() -> None:
    planned = search.propose_plan(preset("llama3-8b"), Cluster(gpu("h100-80gb"), 1, 8, 50e9), ParallelLayout(16))

    written = yaml.safe_load(plan.recipe(planned, "llama3-8b"))

    layout = {name: value for name, value in written["layout"].items() if name not in ("data", "micro_batches")}
    kinds = {"checkpointing": Checkpointing(layout["checkpointing"]), "trainer": TrainerKind(layout["trainer"])}
    assert ParallelLayout(**layout | kinds) == planned.layout
    assert written["expected"]["step_seconds"] == pytest.approx(planned.timing.step, rel=1e-3)
    assert written["layout"]["data"] * written["layout"]["micro_batches"] * written["layout"]["micro_batch"] == 16


def test_serving_is_planned_with_its_cost_and_with_what_was_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--gpu", "h100-80gb", "--rate", "10", "--precision", "bf16"]
    assert called("perf", "plan", "--serve", "--model", "llama3-70b", *words) == 0

    printed = capsys.readouterr().out
    assert "p5.48xlarge" in printed and "p4de" not in printed and "fp8" not in printed
    assert "rejected 1 x h100-80gb, bf16: weights of 131.4 GiB leave no room" in printed


@pytest.mark.parametrize(
    ("words", "message"),
    (
        (["--gpu", "l4"], r"no machine serves this: 1 x l4, bf16: .*\. Raise --first-token-ms or --token-ms, shorten"),
        (
            ["--gpu", "v100-32gb"],
            r"--gpu is 'v100-32gb', and no machine of .*prices.yaml has it.* choose one of",
        ),
        (["--gpu", "a100-80gb", "--precision", "fp8"], r"no machine serves this: none has such a replica and a price"),
        (["--rate", "-1"], r"--rate is -1; give a number above 0"),
        (["--batch", "8", "--zero", "3"], r"--batch, --zero describe a training; leave them out with --serve"),
        (["--model", "custom"], r"plan --serve needs --model: a preset"),
    ),
)
def test_serving_that_no_machine_can_do_is_refused(words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        called("perf", "plan", "--serve", "--model", "llama3-70b", *words)
