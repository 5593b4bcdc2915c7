"""The answer to a request, and the scored rows behind it for the metrics and the prediction log."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from nightshift.http.messages import HttpResponse
from nightshift.items.metrics import Scores, predict
from nightshift.serving.metrics import Floats
from nightshift.serving.versions import Model
from nightshift.tabular.online.event import Event


class ScoredItem(NamedTuple):
    """A scored image or text.

    Attributes:
        id: id in the request.
        label: the class with the highest score; of any number of them, a JSON list; None without classes.
        content: SHA-256 of its decoded input.
    """

    id: str | None
    label: str | None
    content: str


class ScoredRows(msgspec.Struct):
    """The rows that one version has scored.

    Attributes:
        model: the version.
        scores: float of shape (n,); for items, each one's highest score.
        events: the n raw events; empty for requests of features.
        items: the n images or texts; empty for tables.
        labels: the n predicted classes of a table; empty without classes.
    """

    model: Model
    scores: Floats
    events: Sequence[Event] = ()
    items: Sequence[ScoredItem] = ()
    labels: Sequence[str] = ()


def name_classes(scores: Scores, classes: Sequence[str], thresholds: Sequence[float] = ()) -> list[dict[str, Any]]:
    """Return the class of each row or, by thresholds, whether it has each; and the scores, first the highest.

    Args:
        scores: (n, classes).
        classes: their names.
        thresholds: of each class, where a row has any number of them.
    """
    decisions = [
        {"labels": dict(zip(classes, decided, strict=True))} if thresholds else {"label": classes[decided]}
        for decided in predict(scores, thresholds).tolist()
    ]
    return [
        {**decision, "score": max(row), "scores": dict(zip(classes, row, strict=True))}
        for decision, row in zip(decisions, scores.tolist(), strict=True)
    ]


class Answer(msgspec.Struct):
    """An answer, and its scored rows by version."""

    response: HttpResponse
    parts: Sequence[ScoredRows]
