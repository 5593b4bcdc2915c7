"""Named features in JSON, what answers them, and the OpenAPI description of both."""

from typing import Any

import numpy as np
import numpy.typing as npt

from nightshift.serving.answers import Answer, Scored
from nightshift.serving.messages import Response
from nightshift.serving.versions import Current, Model
from nightshift.tensors import by_name


async def score(model: Model, asked: object) -> Answer:
    """Answer `{"instances": [{feature: value}]}` with a prediction an instance.

    Raises:
        RequestError: when the request is not right.
        RefusedError: when too much waits already, or an instance is so far out that it has no score.
    """
    rows = model.rows.matrix(asked)
    scores = await model.batcher.score(by_name(rows))
    found = predictions(scores, model.package.decision.threshold)
    content = {"model": model.name, "version": model.pointer.version, "predictions": found}
    return Answer(Response.json(content), [Scored(model, scores)])


def predictions(scores: npt.NDArray[np.float32], threshold: float | None) -> list[dict[str, float | bool]]:
    """Return what a request is answered with, one prediction a score; flagged or not where there is a threshold."""
    if threshold is None:
        return [{"score": score} for score in scores.tolist()]
    return [{"score": score, "flagged": score >= threshold} for score in scores.tolist()]


def describe(current: Current) -> dict[str, Any]:
    """Return what is public about the version that answers, and which challenger answers a share of the entities."""
    model, split = current.model, current.split
    pointer, package = model.pointer, model.package
    return {
        "name": model.name,
        "version": pointer.version,
        "sha256": pointer.sha256,
        "candidate": package.selected,
        "inputs": package.preprocessing.model_dump(exclude={"kind", "windows"}),
        "threshold": package.decision.threshold,
        "trained": package.lineage.train.model_dump(mode="json", include={"first", "last"}),
        "champion_since": pointer.since,
        "challenger": split and {"version": split.model.pointer.version, "share": split.share},
    }
