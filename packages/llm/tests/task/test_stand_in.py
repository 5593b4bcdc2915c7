"""A small stand-in for a large training keeps its layout."""

from pathlib import Path
from typing import Any

import pytest

from nightshift.config.neural import Trainer
from nightshift.runtime.errors import UserError
from nightshift_llm.recipes import llama
from pipelines import configs
from pipelines.configs import plans
from tests.pipelines.test_plans import write_plan


@pytest.mark.parametrize(
    ("name", "trainer"),
    [
        ("llama-10b", {"nodes": 2, "shard": 4, "pipeline": 2}),
        ("llama-13b", {"tensor": 2, "pipeline": 2, "schedule": "interleaved"}),
        ("llama-10b", {"shard": 8, "context": 2}),
        ("llama-13b", {"zero": 3}),
    ],
)
def test_it_has_the_layout_a_row_a_micro_batch_and_two_blocks_a_stage(
    tmp_path: Path, name: str, trainer: dict[str, Any]
) -> None:
    plan = plans.load(write_plan(tmp_path, trainer=trainer))

    small = plans.scale_down(configs.load(name), plan)

    task, layout = small["task"], Trainer(**trainer)
    parameters = task["candidates"]["llama"]["parameters"]
    assert small["name"] == f"{name}-small"
    assert task["trainer"] == layout.model_copy(update={"nodes": 1, "processes": 8}).model_dump(
        mode="json", exclude_none=True
    )
    rows = 8 // (layout.tensor * layout.pipeline * layout.context)
    assert (parameters["batch_size"], parameters["microbatches"]) == (16 * rows, 16)
    stages = layout.pipeline * (2 if "schedule" in trainer else 1)
    assert parameters["depth"] + 2 >= 2 * stages
    assert parameters["kv_heads"] % layout.tensor == 0
    assert (parameters["precision"], parameters["compile"], task["length"]) == ("float32", "none", 64 * layout.context)


def test_a_pretrained_network_has_none() -> None:
    with pytest.raises(UserError, match="a stand-in has random weights, not those of models/base; leave it out"):
        llama.scale_down({"pretrained": "models/base"}, Trainer())
