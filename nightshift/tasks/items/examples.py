"""Images and texts that a server can be asked about: of the newest day in the lake."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from nightshift import storage
from nightshift.contracts import package, tables
from nightshift.contracts.package import ModelPackage
from nightshift.http.messages import HttpResponse
from nightshift.items.scorer import ClassScorer, scores
from nightshift.models.graph import Graph
from nightshift.models.tensors import Tensors
from nightshift.runtime.errors import UserError
from nightshift.serving.items.loader import load_schema
from nightshift.serving.items.schema import FieldContents, ItemSchema
from nightshift.serving.protocols import items
from nightshift.tasks.base import serving as base
from nightshift.tasks.base.serving import Payload
from nightshift.tasks.examples import ScoredExample

TRIED = 20  # rows of the newest day, one of which is the example


Item = Mapping[str, bytes]  # field name -> content


class ExamplesTask(base.ExamplesTask):
    """Images, texts or items of several fields, of the newest day in the lake."""

    def from_lake(self, uri: str, model: ModelPackage, lake: str, use_case: str) -> tuple[ScoredExample, bytes]:
        schema = load_schema(model, uri)
        usable = schema.filter_usable(_newest(lake, use_case, schema, TRIED))
        item = min(usable, key=lambda item: sum(map(len, item.values())))
        score, payload = ClassScorer(uri, model).score(_decode(schema, item)).max(), _build_payload(schema, item)
        example = ScoredExample("instances", _format(schema, item), float(score), media_type=payload.media_type)
        return example, payload.body

    def payloads(self, uri: str, model: ModelPackage, lake: str, use_case: str, most: int) -> list[Payload]:
        schema = load_schema(model, uri)
        usable = schema.filter_usable(_newest(lake, use_case, schema, most))
        return [_build_payload(schema, item) for item in usable]

    def stages(self, uri: str, model: ModelPackage, most: int) -> dict[str, Callable[[Any], Any]]:
        schema, graph = load_schema(model, uri), Graph(package.read_graph(uri, model, model.selected))
        return {
            "decode": lambda body: _decode(schema, _read_payload(schema, body)),
            "compute": partial(scores, graph),
            "serialize": lambda scores: HttpResponse.json(items.predictions(schema, scores)[0]),
        }


def _decode(schema: ItemSchema, item: Item) -> Tensors:
    """Return the graph's inputs for one item."""
    return schema.decode({name: FieldContents([content], [name]) for name, content in item.items()})


def _format(schema: ItemSchema, item: Item) -> dict[str, str]:
    """Return an item as it is in JSON."""
    return {field.name: field.format(item[field.name]) for field in schema.fields}


def _build_payload(schema: ItemSchema, item: Item) -> Payload:
    """Return the body of a request: an item of one field is the body itself."""
    if len(schema.fields) == 1:
        (field,) = schema.fields
        return Payload(item[field.name], field.media_type(item[field.name]))
    return Payload(json.dumps(_format(schema, item)).encode(), "application/json")


def _read_payload(schema: ItemSchema, body: bytes) -> Item:
    """Return the item of a payload's body."""
    if len(schema.fields) == 1:
        return {schema.fields[0].name: body}
    event = json.loads(body)
    return {field.name: field.parse(event[field.name]) for field in schema.fields}


def _newest(lake: str, use_case: str, schema: ItemSchema, most: int) -> list[Item]:
    """Return what some rows of the newest day in the lake hold, texts in UTF-8.

    Args:
        lake: root of the tables.
        use_case: its name.
        schema: of the items, whose fields are columns.
        most: how many rows.

    Raises:
        UserError: when there is none.
    """
    folder, columns = storage.join(lake, use_case, "events"), [field.name for field in schema.fields]
    for day in reversed(storage.names(folder)):
        for name in storage.names(storage.join(folder, day)):
            part = tables.find_partition(storage.join(folder, day, name)) if name.endswith(".parquet") else None
            if part and part.rows:
                batch = next(iter(storage.read_batches(part.uri, columns, most)))
                rows = zip(*(map(_read_content, batch[column]) for column in columns), strict=True)
                return [dict(zip(columns, row, strict=True)) for row in rows]
    raise UserError(f"{folder} has no {schema.name} to ask the endpoint about; run ingestion of a day that has some")


def _read_content(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)
