"""Raw events in JSON under the user's column names, and labels that arrive later."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from nightshift.errors import UnavailableError, UserError
from nightshift.serving.answers import Answer, Scored
from nightshift.serving.errors import NoStateError, OverloadedError, RefusedError, RequestError
from nightshift.serving.messages import Response
from nightshift.serving.online import Online
from nightshift.serving.payloads import check_list
from nightshift.serving.protocols.features import predictions
from nightshift.serving.versions import Current, Model, Split
from nightshift.tabular.online.event import Event, Id
from nightshift.tabular.online.refusals import RefusedEventError
from nightshift.tensors import by_name

MAX_ERROR = 500  # characters: it may show a value of the request
T = TypeVar("T")
Rows = tuple[list[list[float]], list[dict[str, str]]]  # numeric inputs and categorical columns of each event


async def score(current: Current, raw: object, most: int, only: Model | None = None) -> Answer:
    """Take events in and answer them, once they are durable, with a prediction each.

    Args:
        current: what answers.
        raw: `[{column: value, ...}, ...]`.
        most: events that a request may have.
        only: the version that answers all of them; None: the one that answers each event's entity.

    Raises:
        RefusedError: when a request or an event is not right, too much waits, or the state's store does not answer.
    """
    online = _state(current)
    read = _each("events", raw, most, online.read)
    events = [event for event, _ in read]
    try:
        taken = await online.take(events)
    except (UserError, UnavailableError) as error:
        place = error.index if isinstance(error, RefusedEventError) else 0
        raise _refused(f"events[{place}]", error) from None
    model = only or current.of_windows(taken.base.snapshot.windows)
    split = None if only else current.beside(model)
    rows = taken.rows, [categories for _, categories in read]
    if split is None:
        scores = await model.batcher.score(by_name(model.rows.joined(*rows)), "events[{}]".format)
        found = predictions(scores, model.package.threshold)
        return Answer(_response(model, found), [Scored(model, scores, events)])
    return await _divided(model, split, events, rows)


async def _divided(model: Model, split: Split, events: list[Event], rows: Rows) -> Answer:
    """Have each event answered by the version that its entity belongs to."""
    found: list[dict[str, Any]] = [{}] * len(events)
    parts = []
    for answering, places in split.divided(model, [_entity(event) for event in events]):
        numeric, categories = [rows[0][place] for place in places], [rows[1][place] for place in places]
        fields = [f"events[{place}]" for place in places]
        inputs = by_name(answering.rows.joined(numeric, categories))
        scores = await answering.batcher.score(inputs, fields.__getitem__)
        parts.append(Scored(answering, scores, [events[place] for place in places]))
        said = predictions(scores, answering.package.threshold)
        for place, each in zip(places, said, strict=True):
            found[place] = each | {"version": answering.pointer.version}
    return Answer(_response(model, found), parts)


def _entity(event: Event) -> Id:
    return event.event_id if event.customer is None else event.customer


def _response(model: Model, found: Sequence[Mapping[str, Any]]) -> Response:
    return Response.json({"model": model.name, "version": model.pointer.version, "predictions": found})


async def label(current: Current, request: object, most: int) -> Response:
    """Take labels in, `{"labels": [{<event id>, <event time>, "label": 0 or 1}]}`; say which events are known.

    Raises:
        RefusedError: as `score`.
    """
    online = _state(current)
    if not isinstance(request, dict) or set(request) != {"labels"}:
        raise RequestError("body", request, 'an object {"labels": [...]}')
    labels = _each("labels", request["labels"], most, online.read_label)
    try:
        return Response.json({"known": await asyncio.gather(*map(online.label, labels))})
    except (UserError, UnavailableError) as error:
        raise _refused("labels", error) from None


def _state(current: Current) -> Online:
    if current.online is None:
        said = 'this server has no online state; send features, as {"instances": [...]}, or what /openapi.json says'
        raise NoStateError(said)
    return current.online


def _each(name: str, given: object, most: int, read: Callable[[Mapping[str, Any]], T]) -> list[T]:
    """Read each object of a request's list."""
    found = []
    for place, each in enumerate(check_list(name, given, most)):
        if not isinstance(each, dict):
            raise RequestError(f"{name}[{place}]", each, "an object of columns")
        try:
            found.append(read(each))
        except UserError as error:
            raise _refused(f"{name}[{place}]", error) from None
    return found


def _refused(where: str, error: UserError | UnavailableError) -> RefusedError:
    if isinstance(error, UnavailableError):
        return OverloadedError(str(error))
    return RefusedError(f"{where}: {str(error)[:MAX_ERROR]}", field=where)
