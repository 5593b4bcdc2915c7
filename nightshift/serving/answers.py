"""The answer to a request, and the scored rows behind it for the metrics and the prediction log."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from nightshift.http.messages import HttpResponse
from nightshift.serving.metrics import Floats
from nightshift.serving.versions import Model
from nightshift.tabular.online.event import Event


class ScoredItem(NamedTuple):
    """A scored image or text.

    Attributes:
        id: id in the request.
        label: the class with the highest score; None without classes.
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
    """

    model: Model
    scores: Floats
    events: Sequence[Event] = ()
    items: Sequence[ScoredItem] = ()


class Answer(msgspec.Struct):
    """An answer, and its scored rows by version."""

    response: HttpResponse
    parts: Sequence[ScoredRows]
