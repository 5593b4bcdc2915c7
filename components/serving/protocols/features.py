"""Named features in JSON, what answers them, and the OpenAPI description of both."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from components.serving.messages import RequestError, Response
from components.serving.versions import Model


async def score(model: Model, asked: object) -> tuple[Response, npt.NDArray[np.float32]]:
    """Answer `{"instances": [{feature: value}]}` with a prediction an instance.

    Raises:
        RequestError: when the request is not right, or an instance is so far out that it has no score.
        RefusedError: when too much waits already.
    """
    rows = model.rows.matrix(asked)
    scores = await model.batcher.score(rows)
    found = predictions(scores, model.package.decision.threshold)
    content = {"model": model.name, "version": model.pointer.version, "predictions": found}
    return Response.of(content), scores


def predictions(scores: npt.NDArray[np.float32], threshold: float) -> list[dict[str, float | bool]]:
    """Return what a request is answered with, one prediction a score.

    Raises:
        RequestError: when an instance is so far out that the model has no score for it.
    """
    found = scores.tolist()
    for i, score in enumerate(found):
        if not math.isfinite(score):
            raise RequestError(f"instances[{i}]", "without a finite score", "values nearer to those seen in training")
    return [{"score": score, "flagged": score >= threshold} for score in found]


def describe(model: Model) -> dict[str, Any]:
    """Return what is public about a version."""
    pointer, package = model.pointer, model.package
    return {
        "name": model.name,
        "version": pointer.version,
        "sha256": pointer.sha256,
        "candidate": package.selected,
        "inputs": package.preprocessing.model_dump(include={"numeric", "categorical"}),
        "threshold": package.decision.threshold,
        "trained": package.lineage.train.model_dump(mode="json", include={"first", "last"}),
        "champion_since": pointer.since,
        "snapshot": pointer.snapshot,
    }


def openapi(model: Model, most: int) -> dict[str, Any]:
    """Return the OpenAPI 3.1 description of `/score` for a version's features.

    Args:
        model: the version.
        most: instances a request may have.
    """
    refused = {"description": "what is wrong, and what is allowed", "content": _json({"type": "object"})}
    asked = {"required": True, "content": _json(_object(instances=_list(_instance(model), most)))}
    prediction = _object(score={"type": "number"}, flagged={"type": "boolean"})
    answer = _object(model={"type": "string"}, version={"type": "integer"}, predictions=_list(prediction, most))
    answers = {"200": {"description": "a prediction an instance", "content": _json(answer)}}
    answers |= dict.fromkeys(("400", "401", "413", "503"), refused)
    operation = {"operationId": "score", "requestBody": asked, "responses": answers}
    return {
        "openapi": "3.1.0",
        "info": {"title": f"Nightshift: {model.name}", "version": str(model.pointer.version)},
        "paths": {"/score": {"post": operation}},
    }


def _instance(model: Model) -> dict[str, Any]:
    inputs = model.package.preprocessing
    numbers = {name: {"type": "number"} for name in inputs.numeric}
    texts = {name: {"type": "string", "examples": seen[:3]} for name, seen in inputs.categorical.items()}
    return _object(**numbers, **texts)


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _list(items: dict[str, Any], most: int) -> dict[str, Any]:
    return {"type": "array", "items": items, "minItems": 1, "maxItems": most}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
