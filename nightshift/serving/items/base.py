"""What a task says of its items: how they come in a request, and what the graph sees of them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from nightshift.classification.shards import Array
from nightshift.contracts.package import INPUT
from nightshift.errors import UserError
from nightshift.serving.errors import RequestError
from nightshift.tensors import Tensors


class ItemError(ValueError):
    """An item that cannot be scored: what it is, such as the rule that rejects it, and what is allowed."""

    def __init__(self, value: str, allowed: str) -> None:
        super().__init__(value)
        self.value, self.allowed = value, allowed


class FieldContents(NamedTuple):
    """A field of n items.

    Attributes:
        values: their bytes, or what JSON has of each.
        labels: what to call each in a message.
    """

    values: Sequence[object]
    labels: Sequence[str]


@dataclass(frozen=True)
class ItemField:
    """What an item holds, such as an image: one input of the graph is made from it.

    Attributes:
        name: in JSON, as a tensor of BYTES, and as a column of the events in the lake.
        known: numbers of the input lie below, where they are whole.
        bodies: how the types of bodies begin that are the field as it is.
        schema: of the field in JSON.
        content: the field in JSON -> its bytes; raises `ItemError`.
        shown: its bytes -> the field in JSON.
        seen: its bytes -> what the graph sees of it, without the dimension of rows; raises `ItemError`.
        media_type: bytes that were seen before -> their type.
        input: the graph's.
    """

    name: str
    known: int
    bodies: tuple[str, ...]
    schema: Mapping[str, Any]
    content: Callable[[object], bytes]
    shown: Callable[[bytes], str]
    seen: Callable[[bytes], Array]
    media_type: Callable[[bytes], str]
    input: str = INPUT

    def stack(self, contents: FieldContents) -> Array:
        """Return what the graph sees of the field of n items, (n, ...).

        Raises:
            RequestError: for the first one that cannot be scored.
        """
        return np.stack([self._input(value, label) for value, label in zip(*contents, strict=True)])

    def check(self, array: Array, label: str) -> None:
        """Refuse an input that was sent as it is, (n, ...), and holds what the field would never become.

        Raises:
            RequestError: when it does.
        """
        if array.dtype.kind != "f" and not 0 <= array.min() <= array.max() < self.known:
            raise RequestError(label, f"{array.min()} to {array.max()}", f"numbers from 0 to {self.known - 1}")

    def _input(self, value: object, label: str) -> Array:
        try:
            return self.seen(value if isinstance(value, bytes) else self.content(value))
        except ItemError as error:
            raise RequestError(label, error.value, error.allowed) from None

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


@dataclass(frozen=True)
class Items:
    """A task's items: a request holds all fields of each.

    Attributes:
        classes: what each of the graph's scores is of.
        fields: what an item holds.
    """

    classes: Sequence[str]
    fields: tuple[ItemField, ...]

    @property
    def name(self) -> str:
        """What one is called: by its fields."""
        return " and ".join(field.name for field in self.fields)

    @property
    def bodies(self) -> tuple[str, ...]:
        """How the types of bodies begin that are one item as it is; none where an item has several fields."""
        return self.fields[0].bodies if len(self.fields) == 1 else ()

    def inputs(self, contents: Mapping[str, FieldContents]) -> Tensors:
        """Return what the graph sees of n items, by the fields' names.

        Raises:
            RequestError: for the first one that cannot be scored.
        """
        return {field.input: field.stack(contents[field.name]) for field in self.fields}
