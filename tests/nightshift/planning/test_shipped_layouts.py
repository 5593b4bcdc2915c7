"""The configs of large language models have the layouts that the planner's pages chose."""

from collections.abc import Mapping
from typing import Any

import pytest

from benchmarks import planned
from nightshift.config.neural import Trainer
from nightshift.neural.recipes import llama
from nightshift.planning import pages, search
from nightshift.planning.models import Transformer, preset
from pipelines import configs


def read_recipe(task: Mapping[str, Any], vocabulary: int) -> llama.Llama:
    """The recipe of a config's only candidate, whose tokenizer lies elsewhere."""
    ((_, candidate),) = task["candidates"].items()
    shape = {"vocabulary": vocabulary, "start": 0, "length": task["length"]}
    return llama.build("parameters", shape, candidate["parameters"])


@pytest.mark.parametrize("name", pages.TRAININGS)
def test_a_shipped_config_has_the_network_and_the_layout_of_its_page(name: str) -> None:
    task, (cluster, layouts) = configs.load(name)["task"], pages.TRAININGS[name]
    model, trainer = preset(name), Trainer.parse_value(task["trainer"])
    assert isinstance(model, Transformer)
    recipe = read_recipe(task, model.vocabulary)

    assert planned.describe_model(recipe) == model
    assert trainer.nodes == cluster.nodes
    layout = planned.describe_layout(recipe, trainer, cluster)
    chosen = layouts[pages.CHOSEN[name]]
    assert search.plan(model, cluster, layout) == search.plan(model, cluster, chosen)
    assert search.plan(model, cluster, layout).fits
