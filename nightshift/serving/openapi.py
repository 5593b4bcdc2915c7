"""The OpenAPI 3.1 description of a version's API: features and raw events, or images or texts."""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from nightshift.contracts.online import Events
from nightshift.contracts.package import OUTPUT, DecisionRule, Tensor
from nightshift.data.values import INT64, WHOLE
from nightshift.serving.items.schema import ItemSchema
from nightshift.serving.online import Online
from nightshift.serving.protocols.items import MAX_ID_LENGTH
from nightshift.serving.versions import Model, ModelManager

Schema = dict[str, Any]

REFUSALS = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.CONFLICT,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.SERVICE_UNAVAILABLE,
)


def describe_api(manager: ModelManager, max_rows: int) -> Schema:
    """Describe `/score` and `/labels`.

    Args:
        manager: holds the version that answers.
        max_rows: most events or instances of a request.
    """
    model, online = manager.model, manager.online
    info = {"title": f"Nightshift: {model.name}", "version": str(model.pointer.version)}
    paths = _item_paths(model, model.decoder.items, max_rows) if model.decoder else _row_paths(model, online, max_rows)
    return {"openapi": "3.1.0", "info": info, "paths": paths}


def _row_paths(model: Model, online: Online | None, max_rows: int) -> Schema:
    described = _describe_decision(model.package.decision) | _describe_classes(model.classes)
    prediction = _prediction(score={"type": "number"}, **described)
    most = len(model.package.inputs.columns)
    if model.reasons:
        prediction["properties"]["reasons"] = _list(_REASON, most) | {"minItems": 0}
    bodies = [_object(instances=_list(_instance(model), max_rows))]
    paths = {"/score": _post("score", "a prediction each", _json({"oneOf": bodies}), _answer(prediction, max_rows))}
    if model.reasons:
        paths["/score"]["post"]["parameters"] = [_count(most)]
    if online is not None:
        bodies.append(_object(events=_list(_event(online.events), max_rows)))
    if online is not None and not model.classes:
        known = _object(known=_list({"type": "boolean"}, max_rows))
        labels = _object(labels=_list(_label(online.events), max_rows))
        paths["/labels"] = _post("label", "whether the event of each label is known", _json(labels), known)
    return paths


def _describe_decision(decision: DecisionRule) -> Schema:
    """Describe what a prediction says beside its score."""
    if decision.threshold is not None:
        return {"flagged": {"type": "boolean"}}
    return {} if decision.interval is None else {"low": {"type": "number"}, "high": {"type": "number"}}


def _describe_classes(classes: Sequence[str], is_multilabel: bool = False) -> Schema:
    """Describe what a prediction says of classes, if there are any."""
    if not classes:
        return {}
    scores = {"scores": _object(**{name: {"type": "number"} for name in classes})}
    if is_multilabel:
        return {"labels": _object(**{name: {"type": "boolean"} for name in classes}), **scores}
    return {"label": {"enum": list(classes)}, **scores}


def _item_paths(model: Model, items: ItemSchema, max_rows: int) -> Schema:
    """Describe requests of images or texts: one, in JSON or as the body itself, or several."""
    answered: Schema = {"score": {"type": "number"}} | _describe_classes(items.classes, bool(items.thresholds))
    answered |= {name: _list({"type": "number"}, tensor.shape[-1]) for name, tensor in _list_further(model).items()}
    answered |= model.decoder.answers.schema if model.decoder and model.decoder.answers else {}
    item = _object(**{field.name: field.schema for field in items.fields})
    item["properties"]["id"] = {"type": ["string", "null"], "maxLength": MAX_ID_LENGTH}
    one = _object(**answered, model_version={"type": "integer"})
    prediction = _prediction(**answered)
    if items.is_partial:
        item |= {"required": [], "anyOf": [{"required": [field.name]} for field in items.fields]}
        one["required"], prediction["required"] = ["model_version"], ["version"]
    bodies = _json({"oneOf": [item, _object(instances=_list(item, max_rows))]})
    bodies |= {f"{media_type}*": {"schema": {}} for media_type in items.content_types[:1]}
    answers = {"oneOf": [one, _answer(prediction, max_rows)]}
    return {"/score": _post("score", f"a prediction for each {items.name}", bodies, answers)}


def _list_further(model: Model) -> dict[str, Tensor]:
    """Return what the named graphs give besides scores."""
    outputs = model.package.signature.outputs if model.named else []
    return {tensor.name: tensor for tensor in outputs if tensor.name != OUTPUT}


def _prediction(**properties: Any) -> Schema:
    return _object(**properties, version={"type": "integer", "description": "the version that has scored it"})


def _answer(prediction: Schema, max_rows: int) -> Schema:
    return _object(model={"type": "string"}, version={"type": "integer"}, predictions=_list(prediction, max_rows))


def _post(name: str, description: str, bodies: Schema, answer: Schema) -> Schema:
    refusal = {"description": "what is wrong, and what is allowed", "content": _json({"type": "object"})}
    answers: dict[str, Schema] = {"200": {"description": description, "content": _json(answer)}}
    answers |= {str(status.value): refusal for status in REFUSALS}
    body = {"required": True, "content": bodies}
    return {"post": {"operationId": name, "requestBody": body, "responses": answers}}


def _instance(model: Model) -> Schema:
    inputs = model.package.inputs
    numbers = {name: _number(name in inputs.nullable) for name in inputs.numeric}
    texts = {name: {"type": "string", "examples": values[:3]} for name, values in inputs.categorical.items()}
    return _object(**numbers, **texts)


def _event(events: Events) -> Schema:
    """Describe a raw event; further columns are ignored."""
    amount: Schema = {"type": "number"} if events.negative_amounts else {"type": "number", "minimum": 0}
    known = {"event_time": _TIME, "amount": amount}
    columns = {name: known.get(role) or _id(role, events) for role, name in events.columns.items()}
    numbers = {name: _number(name in events.nullable) for name in events.numeric}
    texts: Schema = {name: {"type": ["string", "number", "boolean", "null"]} for name in events.categorical}
    return _object(**columns, **numbers, **texts) | {"additionalProperties": True}


def _number(nullable: bool) -> Schema:
    return {"type": ["number", "null"] if nullable else "number"}


def _label(events: Events) -> Schema:
    columns = {events.columns["event_id"]: _id("event_id", events), events.columns["event_time"]: _TIME}
    return _object(**columns, label={"enum": [0, 1, False, True]}) | {"additionalProperties": True}


def _id(role: str, events: Events) -> Schema:
    if role in events.integers:
        whole = {"minimum": INT64[0], "maximum": INT64[-1], "pattern": f"^(?:{WHOLE.pattern})$"}
        return {"type": ["integer", "string"]} | whole
    return {"type": ["string", "integer"], "minLength": 1}


def _count(most: int) -> Schema:
    schema = {"type": "integer", "minimum": 1, "maximum": most}
    description = "inputs that moved each score most, the largest contribution to the margin first"
    return {"name": "reasons", "in": "query", "description": description, "schema": schema}


_TIME = {"type": "string", "format": "date-time"}


def _object(**properties: Any) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _list(items: Schema, most: int) -> Schema:
    """Describe a list; -1: any number of elements."""
    return {"type": "array", "items": items, "minItems": 1} | ({} if most < 0 else {"maxItems": most})


def _json(schema: Schema) -> Schema:
    return {"application/json": {"schema": schema}}


_REASON = _object(input={"type": "string"}, contribution={"type": "number"}, text={"type": "string"})
