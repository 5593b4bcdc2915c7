"""Named features in JSON, and the description of the version that answers them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from nightshift.contracts.package import DecisionRule
from nightshift.http.messages import HttpResponse
from nightshift.models.tensors import by_name
from nightshift.serving.answers import Answer, ScoredRows, name_classes
from nightshift.serving.reasons import add_reasons, check_count
from nightshift.serving.versions import Model, ModelManager
from nightshift.stats import conformal
from nightshift.tabular.online.event import Event


async def score(model: Model, request: object, reasons: int = 0) -> Answer:
    """Answer `{"instances": [{feature: value}]}` with a prediction for each instance.

    Args:
        model: the version that answers.
        request: the body.
        reasons: of each score, at most.

    Raises:
        RequestError: when the request is not valid.
        RefusedError: when too much waits, or an instance has no finite score.
    """
    matrix = model.encoder.encode(request)
    check_count(model, len(matrix), reasons)
    scores = await model.batcher.score(by_name(matrix))
    answers, scored = describe_scores(model, scores)
    explained = await add_reasons(model, matrix, answers, reasons)
    content = {"model": model.name, "version": model.pointer.version, "predictions": explained}
    return Answer(HttpResponse.json(content), [scored])


def describe_scores(
    model: Model, scores: npt.NDArray[np.float32], events: Sequence[Event] = ()
) -> tuple[list[dict[str, Any]], ScoredRows]:
    """Return a version's prediction for each row, and the scored rows for the metrics and the prediction log.

    Args:
        model: the version.
        scores: (n,), or (n, classes).
        events: the n raw events; empty for requests of features.
    """
    answers = predictions(scores, model.package.decision, model.pointer.version, model.classes)
    if not model.classes:
        return answers, ScoredRows(model, scores, events)
    return answers, ScoredRows(model, scores.max(axis=1), events, labels=[answer["label"] for answer in answers])


def predictions(
    scores: npt.NDArray[np.float32], decision: DecisionRule, version: int, classes: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """Return a version's prediction for each row: flagged or not, with its interval, or its class, where it has one."""
    threshold, interval = decision.threshold, decision.interval
    if threshold is not None:
        return [{"score": score, "flagged": score >= threshold, "version": version} for score in scores.tolist()]
    if interval is not None:
        ends = zip(scores.tolist(), *(end.tolist() for end in conformal.bound(scores, interval)), strict=True)
        return [{"score": score, "low": low, "high": high, "version": version} for score, low, high in ends]
    if classes:
        return [answer | {"version": version} for answer in name_classes(scores, classes)]
    return [{"score": score, "version": version} for score in scores.tolist()]


def describe(manager: ModelManager) -> dict[str, Any]:
    """Return the public facts about the serving version, and the challenger with its share of the entities."""
    model, split = manager.model, manager.split
    pointer, package = model.pointer, model.package
    return {
        "name": model.name,
        "version": pointer.version,
        "sha256": pointer.sha256,
        "candidate": package.selected,
        "inputs": package.preprocessing.model_dump(exclude={"kind", "features"}),
        "threshold": package.decision.threshold,
        "trained": package.lineage.train.model_dump(mode="json", include={"first", "last"}),
        "champion_since": pointer.since,
        "challenger": split and {"version": split.model.pointer.version, "share": split.share},
    }
