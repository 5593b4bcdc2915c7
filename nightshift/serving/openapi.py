"""The OpenAPI 3.1 description of what a version answers: features and raw events, or images or texts."""

from http import HTTPStatus
from typing import Any

from nightshift.contracts.online import Events
from nightshift.serving.items.base import Items
from nightshift.serving.online import Online
from nightshift.serving.protocols.items import MOST_OF_AN_ID
from nightshift.serving.versions import Current, Model
from nightshift.values import INT64, WHOLE

Schema = dict[str, Any]

REFUSALS = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.CONFLICT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.SERVICE_UNAVAILABLE,
)


def page(current: Current, most: int) -> Schema:
    """Describe `/score` and `/labels`.

    Args:
        current: what answers.
        most: events or instances that a request may have.
    """
    model, online = current.model, current.online
    info = {"title": f"Nightshift: {model.name}", "version": str(model.pointer.version)}
    paths = _items(model.reader.items, most) if model.reader else _events(model, online, most)
    return {"openapi": "3.1.0", "info": info, "paths": paths}


def _events(model: Model, online: Online | None, most: int) -> Schema:
    flagged = {} if model.package.decision.threshold is None else {"flagged": {"type": "boolean"}}
    prediction = _prediction(score={"type": "number"}, **flagged)
    asked = [_object(instances=_list(_instance(model), most))]
    paths = {"/score": _post("score", "a prediction each", _json({"oneOf": asked}), _answer(prediction, most))}
    if online is not None:
        asked.append(_object(events=_list(_event(online.events), most)))
        known = _object(known=_list({"type": "boolean"}, most))
        labels = _object(labels=_list(_label(online.events), most))
        paths["/labels"] = _post("label", "whether the event of each label is known", _json(labels), known)
    return paths


def _items(items: Items, most: int) -> Schema:
    """Describe how images or texts are asked: one, in JSON or as it is, or some of them."""
    scores = _object(**{name: {"type": "number"} for name in items.classes})
    found = {"label": {"enum": list(items.classes)}, "score": {"type": "number"}, "scores": scores}
    item = _object(**{field.name: field.schema for field in items.fields})
    item["properties"]["id"] = {"type": ["string", "null"], "maxLength": MOST_OF_AN_ID}
    asked = _json({"oneOf": [item, _object(instances=_list(item, most))]})
    asked |= {f"{media_type}*": {"schema": {}} for media_type in items.bodies[:1]}
    answers = {"oneOf": [_object(**found, model_version={"type": "integer"}), _answer(_prediction(**found), most)]}
    return {"/score": _post("score", f"the class of each {items.name}", asked, answers)}


def _prediction(**properties: Any) -> Schema:
    found = _object(**properties)
    found["properties"]["version"] = {"type": "integer", "description": "where a challenger answers some"}
    return found


def _answer(prediction: Schema, most: int) -> Schema:
    return _object(model={"type": "string"}, version={"type": "integer"}, predictions=_list(prediction, most))


def _post(name: str, what: str, asked: Schema, answer: Schema) -> Schema:
    refused = {"description": "what is wrong, and what is allowed", "content": _json({"type": "object"})}
    answers: dict[str, Schema] = {"200": {"description": what, "content": _json(answer)}}
    answers |= {str(status.value): refused for status in REFUSALS}
    body = {"required": True, "content": asked}
    return {"post": {"operationId": name, "requestBody": body, "responses": answers}}


def _instance(model: Model) -> Schema:
    inputs = model.package.inputs
    numbers = {name: {"type": "number"} for name in inputs.numeric}
    texts = {name: {"type": "string", "examples": seen[:3]} for name, seen in inputs.categorical.items()}
    return _object(**numbers, **texts)


def _event(events: Events) -> Schema:
    """Describe a raw event; it may have more columns, which nobody looks at."""
    known = {"event_time": _TIME, "amount": {"type": "number", "minimum": 0}}
    columns = {name: known.get(role) or _id(role, events) for role, name in events.columns.items()}
    numbers = {name: {"type": "number"} for name in events.numeric}
    texts: Schema = {name: {"type": ["string", "number", "boolean", "null"]} for name in events.categorical}
    return _object(**columns, **numbers, **texts) | {"additionalProperties": True}


def _label(events: Events) -> Schema:
    columns = {events.columns["event_id"]: _id("event_id", events), events.columns["event_time"]: _TIME}
    return _object(**columns, label={"enum": [0, 1, False, True]}) | {"additionalProperties": True}


def _id(role: str, events: Events) -> Schema:
    if role in events.integers:
        whole = {"minimum": INT64[0], "maximum": INT64[-1], "pattern": f"^(?:{WHOLE.pattern})$"}
        return {"type": ["integer", "string"]} | whole
    return {"type": ["string", "integer"], "minLength": 1}


_TIME = {"type": "string", "format": "date-time"}


def _object(**properties: Any) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _list(items: Schema, most: int) -> Schema:
    return {"type": "array", "items": items, "minItems": 1, "maxItems": most}


def _json(schema: Schema) -> Schema:
    return {"application/json": {"schema": schema}}
