"""The configs of large language models have the layouts that the pages in packages/perf/docs/plans chose."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from benchmarks import planned
from nightshift.config.neural import Trainer
from nightshift_llm.recipes import llama
from nightshift_perf.planning import examples, search
from nightshift_perf.planning.models import Transformer, preset
from pipelines import configs

EXAMPLES = examples.read_examples()


def read_recipe(task: Mapping[str, Any], vocabulary: int) -> llama.Llama:
    """The recipe of a config's only candidate, whose tokenizer lies elsewhere."""
    ((_, candidate),) = task["candidates"].items()
    shape = {"vocabulary": vocabulary, "start": 0, "length": task["length"]}
    return llama.build("parameters", shape, candidate["parameters"])


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_shipped_config_has_the_network_and_the_layout_of_its_page(name: str) -> None:
    task, example = configs.load(name)["task"], EXAMPLES[name]
    model, trainer = preset(name), Trainer.parse_value(task["trainer"])
    assert isinstance(model, Transformer)
    recipe = read_recipe(task, model.vocabulary)

    assert planned.describe_model(recipe) == model
    assert trainer.nodes == example.nodes
    layout = planned.describe_layout(recipe, trainer, example.cluster)
    chosen = example.plan(example.chosen)
    assert search.plan(model, example.cluster, layout) == chosen
    assert chosen.fits


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_page_of_an_example_is_what_the_planner_computes(name: str) -> None:
    page = Path(f"packages/perf/docs/plans/{name}.md").read_text()

    assert page.splitlines() == "\n".join(examples.page(EXAMPLES[name])).splitlines()
