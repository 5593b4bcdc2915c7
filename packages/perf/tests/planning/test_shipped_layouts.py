"""Plans are layouts of this trainer: those that are proposed, and those of the configs of large language models."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from benchmarks import planned
from nightshift.config.neural import Fit, Trainer
from nightshift.models.neural import mesh
from nightshift_llm.recipes import llama
from nightshift_perf.hardware import gpu
from nightshift_perf.planning import native, search
from nightshift_perf.planning.layout import Checkpointing, Cluster, ParallelLayout
from nightshift_perf.planning.models import Transformer, preset
from pipelines import configs

NETWORK = 50 / 8 * 1e9  # bytes/s of a GPU of a p4de.24xlarge, whose 8 share 400 Gbit/s
COMMON = ParallelLayout(batch=64)
CHOSEN = {
    "llama-10b": (
        Cluster(gpu("a100-80gb"), 2, 4, NETWORK),
        replace(COMMON, zero=3, shard=4, pipeline=2, checkpointing=Checkpointing.SELECTIVE),
    ),
    "llama-13b": (Cluster(gpu("a100-80gb"), 8, 8, NETWORK), replace(COMMON, batch=1024, tensor=2, pipeline=4)),
}


def read_recipe(task: Mapping[str, Any], vocabulary: int) -> llama.Llama:
    """The recipe of a config's only candidate, whose tokenizer lies elsewhere."""
    ((_, candidate),) = task["candidates"].items()
    shape = {"vocabulary": vocabulary, "start": 0, "length": task["length"]}
    return llama.build("parameters", shape, candidate["parameters"])


@pytest.mark.parametrize("name", CHOSEN)
def test_a_shipped_config_has_the_network_and_the_layout_of_its_page(name: str) -> None:
    task, (cluster, chosen) = configs.load(name)["task"], CHOSEN[name]
    model, trainer = preset(name), Trainer.parse_value(task["trainer"])
    assert isinstance(model, Transformer)
    recipe = read_recipe(task, model.vocabulary)

    assert planned.describe_model(recipe) == model
    assert trainer.nodes == cluster.nodes
    layout = planned.describe_layout(recipe, trainer, cluster)
    assert search.plan(model, cluster, layout) == search.plan(model, cluster, chosen)
    assert search.plan(model, cluster, layout).fits


@pytest.mark.parametrize(
    ("name", "nodes", "per_node", "batch"),
    (("llama-10b", 2, 4, 64), ("llama-13b", 8, 8, 1024), ("llama3-8b", 1, 8, 16), ("llama3-70b", 8, 8, 256)),
)
def test_the_trainer_runs_the_layout_that_is_proposed(name: str, nodes: int, per_node: int, batch: int) -> None:
    cluster = Cluster(gpu("a100-80gb"), nodes, per_node, NETWORK)

    proposal = search.propose_plan(preset(name), cluster, ParallelLayout(batch))

    layout = proposal.layout
    is_shared = layout.zero == 3
    trainer = {
        "nodes": nodes,
        "tensor": layout.tensor,
        "context": layout.context,
        "pipeline": layout.pipeline,
        "schedule": {1: "1f1b", 2: "interleaved"}[layout.interleave],
        "shard": layout.shards(cluster) if is_shared else 1,
        "zero": 0 if is_shared else layout.zero,
    }
    fit = {"batch_size": batch, "microbatches": layout.micro_batches(cluster), "precision": layout.precision}
    fit["recompute"] = str(layout.checkpointing)
    mesh.check_layout(Fit.parse_value(fit), Trainer.parse_value(trainer), cluster.gpus)
    assert proposal.memory.states == native.states(proposal.model, cluster, layout)
