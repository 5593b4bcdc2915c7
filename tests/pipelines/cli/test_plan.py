"""`nightshift plan` as a person calls it."""

import re
from pathlib import Path

import pytest
import yaml

from nightshift.hardware import gpu
from nightshift.planning import search
from nightshift.planning.layout import Checkpointing, Cluster, ParallelLayout
from nightshift.planning.models import preset
from pipelines.cli import plan
from tests.pipelines.samples import called


def test_a_plan_is_printed_with_its_cost_and_written_as_a_recipe(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "recipe.yaml"
    words = ["--model", "llama3-8b", "--gpu", "h100-80gb", "--batch", "16"]

    assert called("plan", *words, "--samples", "1e6", "--usd-per-gpu-hour", "3", "--output", str(file)) == 0

    printed = capsys.readouterr().out
    recipe = yaml.safe_load(file.read_text())
    hours = 1e6 / 16 * recipe["expected"]["step_seconds"] / 3600
    (cost,) = re.findall(r"([\d,.]+) USD", printed)
    assert float(cost.replace(",", "")) == pytest.approx(hours * 8 * 3, rel=1e-3)
    assert "layout   --micro-batch" in printed and recipe["cluster"]["gpu"] == "h100-80gb"


def test_a_model_is_given_by_its_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--layers", "12", "--hidden", "768", "--heads", "12", "--vocabulary", "50257", "--sequence", "1024"]

    assert called("plan", *sizes, "--gpu", "l4", "--gpus-per-node", "1", "--batch", "8") == 0

    assert "0.163 billion" in capsys.readouterr().out


def test_a_recipe_says_what_was_planned() -> None:
    planned = search.propose_plan(preset("llama3-8b"), Cluster(gpu("h100-80gb"), 1, 8, 50e9), ParallelLayout(16))

    written = yaml.safe_load(plan.recipe(planned, "llama3-8b"))

    layout = {name: value for name, value in written["layout"].items() if name not in ("data", "micro_batches")}
    assert ParallelLayout(**layout | {"checkpointing": Checkpointing(layout["checkpointing"])}) == planned.layout
    assert written["expected"]["step_seconds"] == pytest.approx(planned.timing.step, rel=1e-3)
    assert written["layout"]["data"] * written["layout"]["micro_batches"] * written["layout"]["micro_batch"] == 16
