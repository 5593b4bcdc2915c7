"""Named features in JSON, and the description of the version that answers them."""

from typing import Any

import numpy as np
import numpy.typing as npt

from nightshift.contracts.package import DecisionRule
from nightshift.http.messages import HttpResponse
from nightshift.models.tensors import by_name
from nightshift.serving.answers import Answer, ScoredRows
from nightshift.serving.versions import Model, ModelManager
from nightshift.stats import conformal


async def score(model: Model, request: object) -> Answer:
    """Answer `{"instances": [{feature: value}]}` with a prediction for each instance.

    Raises:
        RequestError: when the request is not valid.
        RefusedError: when too much waits, or an instance has no finite score.
    """
    scores = await model.batcher.score(by_name(model.encoder.encode(request)))
    answers = predictions(scores, model.package.decision, model.pointer.version)
    content = {"model": model.name, "version": model.pointer.version, "predictions": answers}
    return Answer(HttpResponse.json(content), [ScoredRows(model, scores)])


def predictions(
    scores: npt.NDArray[np.float32], decision: DecisionRule, version: int
) -> list[dict[str, float | bool | int]]:
    """Return a version's prediction for each score: flagged or not, or with its interval, where it has either."""
    threshold, interval = decision.threshold, decision.interval
    if threshold is not None:
        return [{"score": score, "flagged": score >= threshold, "version": version} for score in scores.tolist()]
    if interval is not None:
        ends = zip(scores.tolist(), *(end.tolist() for end in conformal.bound(scores, interval)), strict=True)
        return [{"score": score, "low": low, "high": high, "version": version} for score, low, high in ends]
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
