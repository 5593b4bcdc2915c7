"""Images and texts, one as a body of its own or some in JSON, to the class of each and the scores of all classes."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from nightshift.classification.metrics import Scores
from nightshift.serving.answers import Answer, Item, Scored
from nightshift.serving.batching import Limits
from nightshift.serving.errors import RequestError
from nightshift.serving.items.base import FieldContents, Items
from nightshift.serving.items.reader import Reader, Seen
from nightshift.serving.messages import Request, Response
from nightshift.serving.payloads import check_list, decode
from nightshift.serving.versions import Model, Split
from nightshift.tensors import take_rows

MOST_OF_AN_ID = 200  # characters

Names = Sequence[str | None]  # the ids that a request gives


class Answering(NamedTuple):
    """The version that answers, and the challenger that answers some items in its place.

    An item belongs to a version by the `id` that the request gives it, or by what the graph sees of it.
    """

    model: Model
    split: Split | None = None

    @property
    def reader(self) -> Reader:
        """What reads items, for both."""
        assert self.model.reader
        return self.model.reader

    def divided(self, names: Names, seen: Seen) -> list[tuple[Model, list[int]]]:
        """Return which version answers the items at which places."""
        if self.split is None:
            return [(self.model, list(range(len(names))))]
        entities = [content if name is None else name for name, content in zip(names, seen.hashes, strict=True)]
        return self.split.divided(self.model, entities)


async def score(answering: Answering, request: Request, limits: Limits) -> Answer:
    """Answer a body that is an item, `{<item>: ...}` or `{"instances": [{<item>: ...}]}`; an item may have an `id`.

    Raises:
        RequestError: when the request is not right, or an item cannot be scored.
        RefusedError: when too much waits already.
    """
    items, body = answering.reader.items, request.body
    if request.header(b"content-type").startswith(items.bodies):
        (field,) = items.fields
        return await _one(answering, {field.name: FieldContents([body], ["body"])}, None)
    as_it_is = f", or with a Content-Type such as {items.bodies[0]}... the {items.name} itself" if items.bodies else ""
    asked = decode(body, f"JSON{as_it_is}")
    if isinstance(asked, dict) and any(field.name in asked for field in items.fields):
        contents, (name,) = _contents(items, [asked], [""])
        return await _one(answering, contents, name)
    if not isinstance(asked, dict) or set(asked) != {"instances"}:
        item = ", ".join(f'"{field.name}": ...' for field in items.fields)
        raise RequestError("body", asked, f'an object {{{item}}} or {{"instances": [{{{item}}}]}}')
    instances = check_list("instances", asked["instances"], limits.rows)
    contents, names = _contents(items, instances, [f"instances[{i}]" for i in range(len(instances))])
    seen = await answering.reader.read(contents)
    found: list[dict[str, Any]] = [{}] * len(names)
    parts = []
    for model, places in answering.divided(names, seen):
        said, part = await _scored(model, places, seen, names)
        parts.append(part)
        which = {"version": model.pointer.version} if answering.split else {}
        for place, each in zip(places, said, strict=True):
            found[place] = each | which
    model = answering.model
    return Answer(Response.json({"model": model.name, "version": model.pointer.version, "predictions": found}), parts)


async def _one(answering: Answering, contents: Mapping[str, FieldContents], name: str | None) -> Answer:
    seen = await answering.reader.read(contents)
    ((model, places),) = answering.divided([name], seen)
    (found,), part = await _scored(model, places, seen, [name])
    return Answer(Response.json(found | {"model_version": model.pointer.version}), [part])


async def _scored(model: Model, places: list[int], seen: Seen, names: Names) -> tuple[list[dict[str, Any]], Scored]:
    """Return the predictions of one version for the items at some places."""
    assert model.reader
    items = model.reader.items
    those = Seen(take_rows(seen.inputs, places), [seen.hashes[place] for place in places])
    scores = await model.batcher.score(those.inputs, lambda row: f"instances[{places[row]}]")
    return predictions(items, scores), scored(model, items, scores, those, [names[place] for place in places])


def _contents(
    items: Items, instances: Sequence[object], labels: Sequence[str]
) -> tuple[dict[str, FieldContents], Names]:
    """Return the fields of items as JSON has them, and the items' ids; of one that is the body, the label is empty."""
    rows = [_item(items, instance, label) for instance, label in zip(instances, labels, strict=True)]
    contents = {
        field.name: FieldContents(
            [row[field.name] for row in rows],
            [f"{label}.{field.name}".removeprefix(".") for label in labels],
        )
        for field in items.fields
    }
    return contents, [row.get("id") for row in rows]


def _item(items: Items, instance: object, label: str) -> dict[str, Any]:
    """Return an item, once it is known to have all fields and no others, but for an id."""
    names = {field.name for field in items.fields}
    label = label or "body"
    if not isinstance(instance, dict) or not names <= set(instance) <= {*names, "id"}:
        wanted = ", ".join(repr(field.name) for field in items.fields)
        raise RequestError(label, instance, f"an object of {wanted} and, if you like, 'id'")
    name = instance.get("id")
    if name is not None and not (isinstance(name, str) and len(name) <= MOST_OF_AN_ID):
        raise RequestError(f"{label}.id", name, f"text of at most {MOST_OF_AN_ID} characters")
    return instance


def predictions(items: Items, scores: Scores) -> list[dict[str, Any]]:
    """Return what a request is answered with, one prediction a row.

    Args:
        items: what they are.
        scores: (n, classes).
    """
    best = scores.argmax(axis=1).tolist()
    return [
        {"label": items.classes[label], "score": row[label], "scores": dict(zip(items.classes, row, strict=True))}
        for label, row in zip(best, scores.tolist(), strict=True)
    ]


def scored(model: Model, items: Items, scores: Scores, seen: Seen, names: Names) -> Scored:
    """Return what metrics and the prediction log take of an answer; `names` are the ids that the request gives."""
    labels = [items.classes[label] for label in scores.argmax(axis=1).tolist()]
    found = [Item(*each) for each in zip(names, labels, seen.hashes, strict=True)]
    return Scored(model, np.asarray(scores.max(axis=1)), items=found)
