"""The answer to a request with the rows that were scored for it, which metrics and the prediction log take."""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from nightshift.serving.messages import Response
from nightshift.serving.metrics import Floats
from nightshift.serving.versions import Model
from nightshift.tabular.online.event import Event


class Item(NamedTuple):
    """An image or a text that was scored.

    Attributes:
        id: what the request calls it.
        label: the class with the highest score.
        content: SHA-256 of what the graph sees of it.
    """

    id: str | None
    label: str
    content: str


class Scored(msgspec.Struct):
    """What a version has scored.

    Attributes:
        model: the version.
        scores: float of shape (n,); of items, the highest of each.
        events: the n raw events; none where features were sent.
        items: the n images or texts.
    """

    model: Model
    scores: Floats
    events: Sequence[Event] = ()
    items: Sequence[Item] = ()


class Answer(msgspec.Struct):
    """An answer, and what it is made of: a part for each version that has scored."""

    response: Response
    parts: Sequence[Scored]
