"""Raw events in JSON under the user's column names, and labels that arrive later."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from nightshift.http.errors import OverloadedError, RefusedError, RequestError
from nightshift.http.messages import HttpResponse
from nightshift.models.tensors import by_name
from nightshift.runtime.errors import UnavailableError, UserError
from nightshift.serving.answers import Answer
from nightshift.serving.errors import NoStateError
from nightshift.serving.online import Online
from nightshift.serving.payloads import check_list
from nightshift.serving.protocols.features import describe_scores
from nightshift.serving.reasons import add_reasons, check_count
from nightshift.serving.versions import Model, ModelManager, Split
from nightshift.tabular.online.event import Event, Id
from nightshift.tabular.online.refusals import RefusedEventError

MAX_ERROR = 500  # characters: it may show a value of the request
T = TypeVar("T")
EventInputs = tuple[list[list[float]], list[dict[str, str]]]  # numeric inputs and categorical columns of each event


async def score(
    manager: ModelManager, raw: object, max_rows: int, pinned: Model | None = None, reasons: int = 0
) -> Answer:
    """Store events and, once they are durable, return a prediction for each.

    Args:
        manager: holds the version that answers.
        raw: `[{column: value, ...}, ...]`.
        max_rows: most events of a request.
        pinned: version that answers all events; None: the version of each event's entity.
        reasons: of each score, at most.

    Raises:
        RefusedError: when the request or an event is not valid, too much waits, or the state's store does not answer.
    """
    online = _find_state(manager)
    parsed = _parse_list("events", raw, max_rows, online.read)
    events = [event for event, _ in parsed]
    for version in manager.list_answering(pinned):  # before the events are stored
        check_count(version, len(events), reasons)
    try:
        stored = await online.take(events)
    except (UserError, UnavailableError) as error:
        index = error.index if isinstance(error, RefusedEventError) else 0
        raise _refuse(f"events[{index}]", error) from None
    model = pinned or manager.find_by_features(stored.base.snapshot.features)
    split = None if pinned else manager.find_split(model)
    inputs = stored.rows, [categories for _, categories in parsed]
    if split is None:
        matrix = model.encoder.encode_columns(*inputs)
        scores = await model.batcher.score(by_name(matrix), "events[{}]".format)
        answers, scored = describe_scores(model, scores, events)
        explained = await add_reasons(model, matrix, answers, reasons)
        return Answer(_respond(model, explained), [scored])
    return await _score_split(model, split, events, inputs, reasons)


async def _score_split(model: Model, split: Split, events: list[Event], inputs: EventInputs, reasons: int) -> Answer:
    """Score each event with the version of its entity."""
    answers: list[Mapping[str, Any]] = [{}] * len(events)
    parts = []
    for version, indexes in split.partition(model, [_entity(event) for event in events]):
        numeric, categories = [inputs[0][index] for index in indexes], [inputs[1][index] for index in indexes]
        fields = [f"events[{index}]" for index in indexes]
        matrix = version.encoder.encode_columns(numeric, categories)
        scores = await version.batcher.score(by_name(matrix), fields.__getitem__)
        answered, scored = describe_scores(version, scores, [events[index] for index in indexes])
        parts.append(scored)
        explained = await add_reasons(version, matrix, answered, reasons)
        for index, prediction in zip(indexes, explained, strict=True):
            answers[index] = prediction
    return Answer(_respond(model, answers), parts)


def _entity(event: Event) -> Id:
    return event.event_id if event.customer is None else event.customer


def _respond(model: Model, answers: Sequence[Mapping[str, Any]]) -> HttpResponse:
    return HttpResponse.json({"model": model.name, "version": model.pointer.version, "predictions": answers})


async def label(manager: ModelManager, request: object, max_rows: int) -> HttpResponse:
    """Store labels, `{"labels": [{<event id>, <event time>, "label": 0 or 1}]}`; answer whether each event is known.

    Raises:
        RefusedError: as `score`.
    """
    online = _find_state(manager)
    if manager.model.classes:
        raise RefusedError(
            "labels: classes are read from the source of the events, and no feature is made of them here; send none",
            field="labels",
        )
    if not isinstance(request, dict) or set(request) != {"labels"}:
        raise RequestError("body", request, 'an object {"labels": [...]}')
    labels = _parse_list("labels", request["labels"], max_rows, online.read_label)
    try:
        return HttpResponse.json({"known": await asyncio.gather(*map(online.label, labels))})
    except (UserError, UnavailableError) as error:
        raise _refuse("labels", error) from None


def _find_state(manager: ModelManager) -> Online:
    if manager.online is None:
        raise NoStateError('this server has no online state; send features, as {"instances": [...]}; see /openapi.json')
    return manager.online


def _parse_list(name: str, raw: object, max_rows: int, parse: Callable[[Mapping[str, Any]], T]) -> list[T]:
    """Parse each object of a request's list."""
    rows = []
    for index, row in enumerate(check_list(name, raw, max_rows)):
        if not isinstance(row, dict):
            raise RequestError(f"{name}[{index}]", row, "an object of columns")
        try:
            rows.append(parse(row))
        except UserError as error:
            raise _refuse(f"{name}[{index}]", error) from None
    return rows


def _refuse(field: str, error: UserError | UnavailableError) -> RefusedError:
    if isinstance(error, UnavailableError):
        return OverloadedError(str(error))
    return RefusedError(f"{field}: {str(error)[:MAX_ERROR]}", field=field)
