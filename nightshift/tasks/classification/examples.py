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
from nightshift.tasks.examples import ScoredExample
from nightshift.tasks.protocol import Payload

TRIED = 20  # rows of the newest day, one of which is the example


def online_state(_: str, __: str, ___: ModelPackage, ____: str | None = None) -> None:
    """Return the snapshot of an online state: there is none."""


def from_files(_: str, __: ModelPackage, ___: str | None) -> None:
    """Score a row with a model's own files: they hold none."""


def from_lake(uri: str, model: ModelPackage, lake: str, use_case: str) -> tuple[ScoredExample, bytes]:
    """Score an item of the newest day, the smallest of some, since platforms limit a request; return its bytes too.

    Raises:
        UserError: when the lake has no image or text.
    """
    (field,) = load_schema(model, uri).fields
    content = min(field.filter_usable(_newest(lake, use_case, field.name, TRIED)), key=len)
    score = ClassScorer(uri, model).score(field.decode(content)[None]).max()
    event = {field.name: field.format(content)}
    return ScoredExample("instances", event, float(score), media_type=field.media_type(content)), content


def payloads(uri: str, model: ModelPackage, lake: str, use_case: str, most: int) -> list[Payload]:
    """Return images or texts of the newest day, as files.

    Raises:
        UserError: when the lake has none.
    """
    (field,) = load_schema(model, uri).fields
    usable = field.filter_usable(_newest(lake, use_case, field.name, most))
    return [Payload(body, field.media_type(body)) for body in usable]


def stages(uri: str, model: ModelPackage, _: int) -> dict[str, Callable[[Any], Any]]:
    """Return what a server does with a body, one after the other."""
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
