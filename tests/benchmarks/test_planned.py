"""The configs of large language models have the layouts that the pages in packages/perf/docs/plans chose."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from benchmarks import planned
from nightshift.config.neural import Trainer
from nightshift_llm.recipes import llama
from nightshift_perf.hardware import gpu
from nightshift_perf.planning import search
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
