"""Images and texts, one as the body itself or several in JSON, to their classes and scores."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from nightshift.contracts.package import OUTPUT
from nightshift.http.errors import RequestError
from nightshift.http.messages import HttpRequest, HttpResponse
from nightshift.items.labels import name_predictions
from nightshift.items.metrics import Scores
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


class _ItemBatch(NamedTuple):
    """Items of a request that have the same fields.

    Attributes:
        rows: their indexes in the request.
        contents: field name -> its values.
        ids: ids of the items.
    """

    rows: list[int]
    contents: dict[str, FieldContents]
    ids: Ids


async def score(split: TrafficSplit, request: HttpRequest, limits: ServerLimits) -> Answer:
    """Answer an item as the body itself, `{<item>: ...}` or `{"instances": [{<item>: ...}]}`; each may have an `id`.

    Raises:
        RequestError: when the request is not valid, or an item cannot be scored.
        RefusedError: when too much waits.
    """
    items, body = split.decoder.items, request.body
    types = items.content_types
    if field := items.find_field(request.header(b"content-type")):
        return await _score_one(split, _ItemBatch([0], {field.name: FieldContents([body], ["body"])}, [None]))
    payload = decode(
        body, f"JSON, or with a Content-Type such as {types[0]}... the {items.name} itself" if types else "JSON"
    )
    if isinstance(payload, dict) and any(field.name in payload for field in items.fields):
        (batch,) = _group_items(items, [payload], [""])
        return await _score_one(split, batch)
    if not isinstance(payload, dict) or set(payload) != {"instances"}:
        item = ", ".join(f'"{field.name}": ...' for field in items.fields)
        raise RequestError("body", payload, f'an object {{{item}}} or {{"instances": [{{{item}}}]}}')
    return await _score_list(split, check_list("instances", payload["instances"], limits.rows))


async def _score_one(split: TrafficSplit, batch: _ItemBatch) -> Answer:
    decoded = await split.decoder.decode(batch.contents)
    ((version, _),) = split.partition(batch.ids, decoded)
    (prediction,), scored = await _score_part(version, batch, decoded)
    return Answer(HttpResponse.json(prediction | {"model_version": version.pointer.version}), scored)


async def _score_list(split: TrafficSplit, instances: Sequence[object]) -> Answer:
    labels = [f"instances[{index}]" for index in range(len(instances))]
    answers: list[dict[str, Any]] = [{}] * len(instances)
    parts: list[ScoredRows] = []
    for batch in _group_items(split.decoder.items, instances, labels):
        decoded = await split.decoder.decode(batch.contents)
        for version, indexes in split.partition(batch.ids, decoded):
            part = _ItemBatch([batch.rows[i] for i in indexes], {}, [batch.ids[i] for i in indexes])
            answered, scored = await _score_part(version, part, decoded.take(indexes))
            parts += scored
            for row, prediction in zip(part.rows, answered, strict=True):
                answers[row] = prediction | {"version": version.pointer.version}
    model = split.model
    content = {"model": model.name, "version": model.pointer.version, "predictions": answers}
    return Answer(HttpResponse.json(content), parts)


async def _score_part(
    model: Model, batch: _ItemBatch, decoded: DecodedItems
) -> tuple[list[dict[str, Any]], list[ScoredRows]]:
    """Return the predictions of one version for its items of a request, and their scores if they have any."""
    assert model.decoder
    items = model.decoder.items
    outputs = {**await model.run(decoded.inputs, lambda row: f"instances[{batch.rows[row]}]")}
    described = await model.decoder.describe(outputs)
    scores = outputs.pop(OUTPUT, None)
    further = [
        {name: array[row].tolist() for name, array in outputs.items()} | rest for row, rest in enumerate(described)
    ]
    if scores is None:
        return further, []
    named = [first | second for first, second in zip(predictions(items, scores), further, strict=True)]
    return named, [describe_scores(model, items, scores, decoded, batch.ids)]


def _group_items(items: ItemSchema, instances: Sequence[object], labels: Sequence[str]) -> list[_ItemBatch]:
    """Return items in JSON by the fields that they have; the label of an item that is the body is empty."""
    rows = [_check_item(items, instance, label) for instance, label in zip(instances, labels, strict=True)]
    groups: dict[tuple[str, ...], list[int]] = {}
    for index, row in enumerate(rows):
        names = tuple(field.name for field in items.fields if field.name in row)
        groups.setdefault(names, []).append(index)
    return [
        _ItemBatch(
            indexes, {name: _read_field(name, rows, labels, indexes) for name in names}, _read_ids(rows, indexes)
        )
        for names, indexes in groups.items()
    ]


def _read_field(
    name: str, rows: Sequence[Mapping[str, Any]], labels: Sequence[str], indexes: list[int]
) -> FieldContents:
    return FieldContents(
        [rows[index][name] for index in indexes],
        [f"{labels[index]}.{name}".removeprefix(".") for index in indexes],
    )


def _read_ids(rows: Sequence[Mapping[str, Any]], indexes: list[int]) -> Ids:
    return [rows[index].get("id") for index in indexes]


def _check_item(items: ItemSchema, instance: object, label: str) -> dict[str, Any]:
    """Check that an item has the fields of one form and nothing else but an id; null is a field that is absent."""
    label = label or "body"
    forms = [{field.name for field in form} for form in items.forms]
    row = instance
    if isinstance(instance, dict) and items.is_partial:
        row = {name: value for name, value in instance.items() if value is not None}
    if not isinstance(row, dict) or set(row) - {"id"} not in forms:
        names = ", ".join(repr(field.name) for field in items.fields)
        some = " (one or more of these)" if items.is_partial else ""
        raise RequestError(label, instance, f"an object of {names}{some} and, if you like, 'id'")
    item_id = row.get("id")
    if item_id is not None and not (isinstance(item_id, str) and len(item_id) <= MAX_ID_LENGTH):
        raise RequestError(f"{label}.id", item_id, f"text of at most {MAX_ID_LENGTH} characters")
    return row


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
