"""What a task says of its items: how they come in a request, and what the graph sees of them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nightshift.classification.shards import Array
from nightshift.errors import UserError
from nightshift.serving.errors import RequestError


class ItemError(ValueError):
    """An item that cannot be scored: what it is, such as the rule that rejects it, and what is allowed."""

    def __init__(self, value: str, allowed: str) -> None:
        super().__init__(value)
        self.value, self.allowed = value, allowed


@dataclass(frozen=True)
class Items:
    """A task's items.

    Attributes:
        name: of one, in JSON, as a tensor of BYTES, and as a column of the events in the lake.
        classes: what each of the graph's scores is of.
        known: inputs that are numbers lie below.
        bodies: how the types of bodies begin that are one item as it is.
        schema: of an item in JSON.
        content: an item in JSON -> its bytes; raises `ItemError`.
        shown: its bytes -> the item in JSON.
        seen: its bytes -> what the graph sees of it, without the dimension of rows; raises `ItemError`.
        media_type: bytes that were seen before -> their type.
    """

    name: str
    classes: Sequence[str]
    known: int
    bodies: tuple[str, ...]
    schema: Mapping[str, Any]
    content: Callable[[object], bytes]
    shown: Callable[[bytes], str]
    seen: Callable[[bytes], Array]
    media_type: Callable[[bytes], str]

    def inputs(self, given: Sequence[object], fields: Sequence[str]) -> Array:
        """Return what the graph sees of n items, (n, ...).

        Args:
            given: their bytes, or what JSON has of each.
            fields: what to call each in a message.

        Raises:
            RequestError: for the first one that cannot be scored.
        """
        return np.stack([self._input(each, field) for each, field in zip(given, fields, strict=True)])

    def _input(self, given: object, field: str) -> Array:
        try:
            return self.seen(given if isinstance(given, bytes) else self.content(given))
        except ItemError as error:
            raise RequestError(field, error.value, error.allowed) from None

    def usable(self, contents: Iterable[bytes]) -> Iterator[bytes]:
        """Yield those of some items' bytes that can be scored: a version may refuse what ingestion takes by now.

        Raises:
            UserError: when there is none.
        """
        found = False
        for content in filter(self._can, contents):
            found = True
            yield content
        if not found:
            raise UserError(f"the version can score no {self.name} of the newest day; train one with today's config")

    def _can(self, content: bytes) -> bool:
        try:
            self.seen(content)
        except ItemError:
            return False
        return True
