"""A plan of a training in a use case's config."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from nightshift.runtime.errors import UserError
from pipelines import configs
from pipelines.configs import plans

PLANNED = {
    "model": "llama-10b",
    "parameters": 9_900_000_000,
    "gpu": "a100-80gb",
    "nodes": 2,
    "gpus_per_node": 4,
    "memory_bytes": 7.8e10,
    "states_bytes": 5.6e10,
    "activations_bytes": 2.1e10,
    "step_seconds": 31.6,
    "bubble": 0.056,
    "throughput_per_gpu": 2076.0,
    "throughput_unit": "tokens",
}


def write_plan(folder: Path, **changes: Any) -> str:
    plan = {
        "trainer": {"nodes": 2, "shard": 4, "pipeline": 2},
        "network": {"batch_size": 64, "microbatches": 16, "precision": "bf16"},
        "planned": PLANNED,
        "launch": "torchrun ...",
    }
    file = folder / "plan.yaml"
    file.write_text(yaml.safe_dump(plan | changes))
    return str(file)


def test_a_plan_replaces_the_layout_and_the_parameters_it_names_and_nothing_else(tmp_path: Path) -> None:
    before = configs.load("resnet50")
    (name,) = (name for name, candidate in before["task"]["candidates"].items() if candidate["kind"] == "resnet")
    before["task"]["candidates"] = {name: before["task"]["candidates"][name]}

    after = plans.apply(before, plans.load(write_plan(tmp_path)))

    assert (after["task"]["trainer"]["shard"], after["task"]["trainer"]["pipeline"]) == (4, 2)
    parameters = after["task"]["candidates"][name]["parameters"]
    assert parameters == before["task"]["candidates"][name]["parameters"] | {
        "batch_size": 64,
        "microbatches": 16,
        "precision": "bf16",
    }
    assert {key: value for key, value in after.items() if key != "task"} == {
        key: value for key, value in before.items() if key != "task"
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trainer": {"shards": 4}}, "trainer.shards: Extra inputs are not permitted; write it again with: nightshift"),
        ({"trainer": {"shard": 0}}, "trainer.shard: Input should be greater than or equal to 1"),
        ({"planned": PLANNED | {"nodes": "two"}}, "planned.nodes: Input should be a valid integer"),
        ({"network": None}, "network: Input should be an object"),
    ],
)
def test_a_plan_with_a_wrong_field_is_refused_by_its_name(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        plans.load(write_plan(tmp_path, **changes))


def test_a_config_with_no_network_or_several_has_no_place_for_a_plan(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a plan is for one network, and leads has .*; leave out the others"):
        plans.apply(configs.load("leads"), plans.load(write_plan(tmp_path)))


@pytest.mark.slow
def test_a_missing_plan_and_a_stand_in_without_a_plan_name_the_next_command(tmp_path: Path) -> None:
    for flags, message in (
        (["--plan", str(tmp_path / "none.yaml")], "write one with: nightshift perf plan --write"),
        (["--scale-down"], "--scale-down is for a plan; name its file: --plan plan.yaml"),
    ):
        command = [sys.executable, "-m", "pipelines.cli", "run", "--workspace", str(tmp_path), *flags]
        done = subprocess.run(command, capture_output=True, text=True, check=False)

        assert done.returncode == 2
        assert message in done.stderr
        assert not (tmp_path / "runs").exists()


def test_a_network_without_a_stand_in_says_so(tmp_path: Path) -> None:
    config = configs.load("resnet50")
    config["task"]["candidates"] = {
        name: value for name, value in config["task"]["candidates"].items() if value["kind"] == "resnet"
    }
    with pytest.raises(UserError, match="--scale-down: a network of image-classification has no stand-in"):
        plans.scale_down(config, plans.load(write_plan(tmp_path)))
