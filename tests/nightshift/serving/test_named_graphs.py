"""Named graphs of a package are called where a request has their inputs, each in a batch of its own."""

import asyncio
from typing import Any

import numpy as np
import pytest

from nightshift.models.cutting import cut_graphs
from nightshift.models.graph import Graph
from nightshift.models.tensors import Tensors, take_rows
from nightshift.runtime.errors import UserError
from nightshift.serving.batching import ServerLimits, Statistics
from nightshift.serving.errors import NoScoreError
from nightshift.serving.files import DeploymentPointer
from nightshift.serving.items.decoder import DecoderPool
from nightshift.serving.items.schema import ItemField, ItemSchema
from nightshift.serving.named import NamedBatcher
from nightshift.serving.versions import Model, check_fields
from nightshift_testkit import packages
from nightshift_testkit.pairs import PairShape, build_pair_graph

SHAPE = PairShape()
GRAPH = build_pair_graph(SHAPE)
RANDOM = np.random.default_rng(0)
ROWS: Tensors = {
    "pixels": RANDOM.integers(0, 256, (6, SHAPE.side, SHAPE.side, 1), dtype=np.uint8),
    "tokens": RANDOM.integers(0, SHAPE.vocabulary, (6, SHAPE.length), dtype=np.int32),
}
OUTPUTS = ["score", "image_embedding", "text_embedding"]
EXPECTED = Graph(GRAPH).run(OUTPUTS, ROWS)
FIELD = "instances[{}]".format


def field(name: str, tensor: str) -> ItemField:
    return ItemField(name, 256, (f"{name}/",), {"type": "string"}, bytes, str, np.array, lambda _: name, tensor)


ITEMS = ItemSchema(["a", "b"], (field("image", "pixels"), field("text", "tokens")), is_partial=True)


def load(items: ItemSchema = ITEMS) -> Model:
    """As the server loads a package of named graphs; of one event loop."""
    example = take_rows(ROWS, slice(1))
    named = [
        NamedBatcher(Graph(part), SHAPE.signature.graphs[name], example, ServerLimits())
        for name, part in cut_graphs(GRAPH, SHAPE.signature).items()
    ]
    manifest = packages.manifest({"pair": GRAPH}, signature=SHAPE.signature)
    pointer = DeploymentPointer(1, "", manifest.sha256, "2024-03-10T00:00:00+00:00")
    return Model("pair", pointer, manifest, DecoderPool(items, 100), named[0].batcher, named=named)


def take(rows: slice, *names: str) -> Tensors:
    return {name: ROWS[name][rows] for name in names}


def run(*requests: Tensors) -> tuple[list[Tensors], list[Statistics]]:
    model = load()

    async def ask() -> list[Tensors]:
        return list(await asyncio.gather(*(model.run(request, FIELD) for request in requests)))

    outputs = asyncio.run(ask())
    return outputs, [graph.batcher.statistics for graph in model.named]


def test_requests_get_the_outputs_of_the_graphs_whose_inputs_they_have() -> None:
    requests = [take(slice(0, 2), "pixels"), take(slice(2, 3), "tokens"), take(slice(3, 6), "pixels", "tokens")]
    (image, text, both), _ = run(*requests)
    assert set(image) == {"score", "image_embedding"}
    assert set(text) == {"text_embedding"}
    assert set(both) == set(OUTPUTS)
    for outputs, rows in ((image, slice(0, 2)), (text, slice(2, 3)), (both, slice(3, 6))):
        for name, values in outputs.items():
            assert values == pytest.approx(EXPECTED[name][rows], abs=1e-6), name


def test_requests_with_and_without_the_other_field_share_a_call_of_a_tower() -> None:
    _, (image, text) = run(take(slice(0, 2), "pixels"), take(slice(2, 6), "pixels", "tokens"))
    assert (image.calls, image.requests, image.rows) == (1, 2, 6)
    assert (text.calls, text.requests, text.rows) == (1, 1, 4)
    total = Statistics.total([image, text])
    assert (total.calls, total.rows, total.last_ms) == (2, 10, max(image.last_ms, text.last_ms))


class Nowhere:
    """A graph without a finite embedding of its second row."""

    def run(self, outputs: list[str], inputs: Tensors) -> Any:
        values = np.zeros((len(inputs["tokens"]), 3), np.float32)
        values[1:] = np.nan
        return dict.fromkeys(outputs, values)


def test_a_row_without_a_finite_output_is_refused_by_its_name() -> None:
    graph: Any = Nowhere()
    named = NamedBatcher(graph, SHAPE.signature.graphs["text"], take_rows(ROWS, slice(1)), ServerLimits())

    async def ask() -> None:
        await named.run(take(slice(3), "tokens"), FIELD)

    with pytest.raises(NoScoreError, match=r"instances\[1\] has no finite score"):
        asyncio.run(ask())


def test_an_item_that_no_graph_takes_is_refused_when_the_version_is_loaded() -> None:
    alone = load().named[:1]
    with pytest.raises(UserError, match="no graph of the model takes an item of 'text' alone"):
        check_fields(DecoderPool(ITEMS, 100), alone)


@pytest.mark.parametrize(
    ("names", "outputs"),
    [
        (["image"], ["score", "image_embedding", "label"]),
        (["tokens"], ["text_embedding"]),
        (["pixels", "tokens"], [*OUTPUTS, "label"]),
    ],
)
def test_a_response_has_the_tensors_that_the_requests_fields_give(names, outputs) -> None:
    model = load()
    model.__dict__["classes"] = ["a", "b"]
    assert list(model.find_outputs(names)) == outputs


def test_forms_of_an_item_are_all_sets_of_its_fields_the_largest_first() -> None:
    assert [[field.name for field in form] for form in ITEMS.forms] == [["image", "text"], ["image"], ["text"]]
    assert ITEMS.content_types == ("image/", "text/")
    text = ITEMS.find_field("text/plain")
    assert text is not None
    assert text.name == "text"
    whole = ItemSchema([], ITEMS.fields)
    assert (len(whole.forms), whole.content_types, whole.find_field("text/plain")) == (1, (), None)
