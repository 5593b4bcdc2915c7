"""Images and texts that a server can be asked about: of the newest day in the lake."""

from collections.abc import Callable
from functools import partial
from typing import Any

from nightshift import storage
from nightshift.contracts import package, tables
from nightshift.contracts.package import ModelPackage
from nightshift.http.messages import HttpResponse
from nightshift.items.scorer import ClassScorer, scores
from nightshift.models.graph import Graph
from nightshift.runtime.errors import UserError
from nightshift.serving.items.loader import load_schema
from nightshift.serving.protocols import items
from nightshift.tasks.base import serving as base
from nightshift.tasks.base.serving import Payload
from nightshift.tasks.examples import ScoredExample

TRIED = 20  # rows of the newest day, one of which is the example


class ExamplesTask(base.ExamplesTask):
    """Images or texts of the newest day in the lake."""

    def from_lake(self, uri: str, model: ModelPackage, lake: str, use_case: str) -> tuple[ScoredExample, bytes]:
        (field,) = load_schema(model, uri).fields
        content = min(field.filter_usable(_newest(lake, use_case, field.name, TRIED)), key=len)
        score = ClassScorer(uri, model).score(field.decode(content)[None]).max()
        event = {field.name: field.format(content)}
        return ScoredExample("instances", event, float(score), media_type=field.media_type(content)), content

    def payloads(self, uri: str, model: ModelPackage, lake: str, use_case: str, most: int) -> list[Payload]:
        (field,) = load_schema(model, uri).fields
        usable = field.filter_usable(_newest(lake, use_case, field.name, most))
        return [Payload(body, field.media_type(body)) for body in usable]

    def stages(self, uri: str, model: ModelPackage, most: int) -> dict[str, Callable[[Any], Any]]:
        served, graph = load_schema(model, uri), Graph(package.read_graph(uri, model, model.selected))
        (field,) = served.fields
        return {
            "decode": lambda content: field.decode(content)[None],
            "compute": partial(scores, graph),
            "serialize": lambda scores: HttpResponse.json(items.predictions(served, scores)[0]),
        }


def _newest(lake: str, use_case: str, column: str, most: int) -> list[bytes]:
    """Return what some rows of the newest day in the lake hold, texts in UTF-8.

    Args:
        lake: root of the tables.
        use_case: its name.
        column: `image` or `text`.
        most: how many rows.

    Raises:
        UserError: when there is none.
    """
    folder = storage.join(lake, use_case, "events")
    for day in reversed(storage.names(folder)):
        for name in storage.names(storage.join(folder, day)):
            part = tables.find_partition(storage.join(folder, day, name)) if name.endswith(".parquet") else None
            if part and part.rows:
                batch = next(iter(storage.read_batches(part.uri, [column], most)))
                return [content.encode() if isinstance(content, str) else bytes(content) for content in batch[column]]
    raise UserError(f"{folder} has no {column} to ask the endpoint about; run ingestion of a day that has some")
