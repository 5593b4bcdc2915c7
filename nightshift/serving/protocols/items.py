"""Images and texts, one as the body itself or several in JSON, to their classes and scores."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from nightshift.http.errors import RequestError
from nightshift.http.messages import HttpRequest, HttpResponse
from nightshift.items.labels import name_predictions
from nightshift.items.metrics import Scores
from nightshift.models.tensors import take_rows
from nightshift.serving.answers import Answer, ScoredItem, ScoredRows, name_classes
from nightshift.serving.batching import ServerLimits
from nightshift.serving.items.decoder import DecodedItems, DecoderPool
from nightshift.serving.items.schema import FieldContents, ItemSchema
from nightshift.serving.payloads import check_list, decode
from nightshift.serving.versions import Model, Split

MAX_ID_LENGTH = 200  # characters

Ids = Sequence[str | None]  # ids of the items in a request


class TrafficSplit(NamedTuple):
    """The version that answers, and the challenger that answers a share of the items in its place.

    An item belongs to a version by its `id` in the request, else by its decoded input.
    """

    model: Model
    challenger: Split | None = None

    @property
    def decoder(self) -> DecoderPool:
        """Decoder of the items, for both versions."""
        assert self.model.decoder
        return self.model.decoder

    def partition(self, ids: Ids, decoded: DecodedItems) -> list[tuple[Model, list[int]]]:
        """Return each version with the indexes of its items."""
        if self.challenger is None:
            return [(self.model, list(range(len(ids))))]
        entities = [
            content if item_id is None else item_id for item_id, content in zip(ids, decoded.hashes, strict=True)
        ]
        return self.challenger.partition(self.model, entities)


async def score(split: TrafficSplit, request: HttpRequest, limits: ServerLimits) -> Answer:
    """Answer an item as the body itself, `{<item>: ...}` or `{"instances": [{<item>: ...}]}`; each may have an `id`.

    Raises:
        RequestError: when the request is not valid, or an item cannot be scored.
        RefusedError: when too much waits.
    """
    items, body = split.decoder.items, request.body
    types = items.content_types
    if request.header(b"content-type").startswith(types):
        (field,) = items.fields
        return await _score_one(split, {field.name: FieldContents([body], ["body"])}, None)
    payload = decode(
        body, f"JSON, or with a Content-Type such as {types[0]}... the {items.name} itself" if types else "JSON"
    )
    if isinstance(payload, dict) and any(field.name in payload for field in items.fields):
        contents, (item_id,) = _read_contents(items, [payload], [""])
        return await _score_one(split, contents, item_id)
    if not isinstance(payload, dict) or set(payload) != {"instances"}:
        item = ", ".join(f'"{field.name}": ...' for field in items.fields)
        raise RequestError("body", payload, f'an object {{{item}}} or {{"instances": [{{{item}}}]}}')
    return await _score_list(split, check_list("instances", payload["instances"], limits.rows))


async def _score_one(split: TrafficSplit, contents: Mapping[str, FieldContents], item_id: str | None) -> Answer:
    decoded = await split.decoder.decode(contents)
    ((version, indexes),) = split.partition([item_id], decoded)
    (prediction,), scored = await _score_part(version, indexes, decoded, [item_id])
    return Answer(HttpResponse.json(prediction | {"model_version": version.pointer.version}), [scored])


async def _score_list(split: TrafficSplit, instances: Sequence[object]) -> Answer:
    labels = [f"instances[{index}]" for index in range(len(instances))]
    contents, ids = _read_contents(split.decoder.items, instances, labels)
    decoded = await split.decoder.decode(contents)
    answers: list[dict[str, Any]] = [{}] * len(ids)
    parts = []
    for version, indexes in split.partition(ids, decoded):
        answered, scored = await _score_part(version, indexes, decoded, ids)
        parts.append(scored)
        for index, prediction in zip(indexes, answered, strict=True):
            answers[index] = prediction | {"version": version.pointer.version}
    model = split.model
    content = {"model": model.name, "version": model.pointer.version, "predictions": answers}
    return Answer(HttpResponse.json(content), parts)


async def _score_part(
    model: Model, indexes: list[int], decoded: DecodedItems, ids: Ids
) -> tuple[list[dict[str, Any]], ScoredRows]:
    """Return the predictions of one version for its items of a request."""
    assert model.decoder
    items = model.decoder.items
    part = DecodedItems(take_rows(decoded.inputs, indexes), [decoded.hashes[index] for index in indexes])
    scores = await model.batcher.score(part.inputs, lambda row: f"instances[{indexes[row]}]")
    return predictions(items, scores), describe_scores(model, items, scores, part, [ids[index] for index in indexes])


def _read_contents(
    items: ItemSchema, instances: Sequence[object], labels: Sequence[str]
) -> tuple[dict[str, FieldContents], Ids]:
    """Return the fields of items in JSON, and the items' ids; the label of an item that is the body is empty."""
    rows = [_check_item(items, instance, label) for instance, label in zip(instances, labels, strict=True)]
    contents = {
        field.name: FieldContents(
            [row[field.name] for row in rows],
            [f"{label}.{field.name}".removeprefix(".") for label in labels],
        )
        for field in items.fields
    }
    return contents, [row.get("id") for row in rows]


def _check_item(items: ItemSchema, instance: object, label: str) -> dict[str, Any]:
    """Check that an item has all fields and nothing else but an id."""
    names = {field.name for field in items.fields}
    label = label or "body"
    if not isinstance(instance, dict) or not names <= set(instance) <= {*names, "id"}:
        allowed = ", ".join(repr(field.name) for field in items.fields)
        raise RequestError(label, instance, f"an object of {allowed} and, if you like, 'id'")
    item_id = instance.get("id")
    if item_id is not None and not (isinstance(item_id, str) and len(item_id) <= MAX_ID_LENGTH):
        raise RequestError(f"{label}.id", item_id, f"text of at most {MAX_ID_LENGTH} characters")
    return instance


def predictions(items: ItemSchema, scores: Scores) -> list[dict[str, Any]]:
    """Return a prediction for each row.

    Args:
        items: schema of the items.
        scores: (n, classes), or (n,) without classes.
    """
    if not items.classes:
        return [{"score": score} for score in scores.tolist()]
    return name_classes(scores, items.classes, items.thresholds)


def describe_scores(model: Model, items: ItemSchema, scores: Scores, decoded: DecodedItems, ids: Ids) -> ScoredRows:
    """Return the scored items for the metrics and the prediction log.

    Args:
        model: the version.
        items: schema of the items.
        scores: (n, classes), or (n,) without classes.
        decoded: the n items.
        ids: their ids in the request.
    """
    labels: Sequence[str | None] = [None] * len(scores)
    if items.classes:
        labels = name_predictions(scores, items.classes, items.thresholds)
    rows = [ScoredItem(*entry) for entry in zip(ids, labels, decoded.hashes, strict=True)]
    return ScoredRows(model, scores.max(axis=1) if items.classes else scores, items=rows)
