"""The items of a task, such as images: their form in a request, and their decoding to the graph's inputs."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Any, NamedTuple

import numpy as np

from nightshift.contracts.package import INPUT
from nightshift.http.errors import RequestError
from nightshift.items.shards import Array
from nightshift.models.tensors import Tensors
from nightshift.runtime.errors import UserError


class ItemError(ValueError):
    """An item that cannot be scored: its value or the rule that rejects it, and what is allowed."""

    def __init__(self, value: str, allowed: str) -> None:
        super().__init__(value)
        self.value, self.allowed = value, allowed


class FieldContents(NamedTuple):
    """One field of n items.

    Attributes:
        values: their bytes, or their JSON values.
        labels: their names in error messages.
    """

    values: Sequence[object]
    labels: Sequence[str]


@dataclass(frozen=True)
class ItemField:
    """A field of an item, such as an image; it is decoded to one input of the graph.

    Attributes:
        name: name of the field in JSON, of the tensor of BYTES, and of the events' column in the lake.
        limit: exclusive upper bound of whole numbers in the input.
        content_types: prefixes of a Content-Type whose body is the field's bytes.
        schema: JSON schema of the field.
        parse: JSON value -> bytes; raises `ItemError`.
        format: bytes -> JSON value.
        decode: bytes -> the graph's input, without the dimension of rows; raises `ItemError`.
        media_type: bytes that can be decoded -> their media type.
        input: name of the graph's input.
    """

    name: str
    limit: int
    content_types: tuple[str, ...]
    schema: Mapping[str, Any]
    parse: Callable[[object], bytes]
    format: Callable[[bytes], str]
    decode: Callable[[bytes], Array]
    media_type: Callable[[bytes], str]
    input: str = INPUT

    def stack(self, contents: FieldContents) -> Array:
        """Return the graph's input for the field of n items, (n, ...).

        Raises:
            RequestError: for the first item that cannot be scored.
        """
        return np.stack([self._decode(value, label) for value, label in zip(*contents, strict=True)])

    def check(self, array: Array, label: str) -> None:
        """Refuse an input sent as a tensor, (n, ...), whose numbers no field decodes to.

        Raises:
            RequestError: when a number is negative or not below the limit.
        """
        if array.dtype.kind != "f" and not 0 <= array.min() <= array.max() < self.limit:
            raise RequestError(label, f"{array.min()} to {array.max()}", f"numbers from 0 to {self.limit - 1}")

    def _decode(self, value: object, label: str) -> Array:
        try:
            return self.decode(value if isinstance(value, bytes) else self.parse(value))
        except ItemError as error:
            raise RequestError(label, error.value, error.allowed) from None

    def is_usable(self, content: bytes) -> bool:
        """Return whether this version can score a content: ingestion's rules may have changed since its training."""
        try:
            self.decode(content)
        except ItemError:
            return False
        return True


class ItemAnswers(ABC):
    """What an item is answered with besides its classes and scores."""

    @property
    @abstractmethod
    def schema(self) -> Mapping[str, Mapping[str, Any]]:
        """Name -> JSON schema of what is answered; each is absent of items that lack the fields it is made of."""

    @abstractmethod
    def list_names(self, outputs: Collection[str]) -> list[str]:
        """Return the names of what is answered where the graphs have given some outputs."""

    @abstractmethod
    def describe(self, outputs: Tensors) -> list[dict[str, Any]]:
        """Return the answers of n items by name.

        Args:
            outputs: of the graphs that the items have the inputs of, (n, ...).
        """


@dataclass(frozen=True)
class ItemSchema:
    """The items of a task; a request has all fields of each item, or at least one where the model has named graphs.

    Attributes:
        classes: names of the classes, in the order of the graph's scores; none where an item has one score.
        fields: fields of an item.
        thresholds: of each class, where an item has any number of them.
        is_partial: whether an item may lack all fields but one.
        known_by: input by which the same item is known again, where it has that; empty: all of its inputs.
    """

    classes: Sequence[str]
    fields: tuple[ItemField, ...]
    thresholds: Sequence[float] = ()
    is_partial: bool = False
    known_by: str = ""

    @property
    def name(self) -> str:
        """Name of an item: its fields' names."""
        return " and ".join(field.name for field in self.fields)

    @property
    def content_types(self) -> tuple[str, ...]:
        """Prefixes of a Content-Type whose body is one item; none where an item has several fields."""
        return tuple(chain.from_iterable(field.content_types for field in self._alone))

    @property
    def _alone(self) -> tuple[ItemField, ...]:
        """Fields that are an item without the others."""
        return self.fields if self.is_partial or len(self.fields) == 1 else ()

    @property
    def forms(self) -> list[tuple[ItemField, ...]]:
        """Sets of fields that an item may have, the largest first."""
        sizes = range(len(self.fields), 0, -1) if self.is_partial else [len(self.fields)]
        return [form for size in sizes for form in combinations(self.fields, size)]

    def find_field(self, content_type: str) -> ItemField | None:
        """Return the field that a body of a Content-Type is; None: such a body is no item."""
        return next((field for field in self._alone if content_type.startswith(field.content_types)), None)

    def decode(self, contents: Mapping[str, FieldContents]) -> Tensors:
        """Return the graphs' inputs for n items that have the same fields, by name.

        Args:
            contents: field name -> its values.

        Raises:
            RequestError: for the first item that cannot be scored.
        """
        return {field.input: field.stack(contents[field.name]) for field in self.fields if field.name in contents}

    def filter_usable(self, items: Iterable[Mapping[str, bytes]]) -> Iterator[Mapping[str, bytes]]:
        """Yield the items, field name -> bytes, that this version can score.

        Raises:
            UserError: when there is none.
        """
        has_usable = False
        for item in items:
            if all(field.is_usable(item[field.name]) for field in self.fields):
                has_usable = True
                yield item
        if not has_usable:
            raise UserError(f"the version can score no {self.name} of the newest day; train one with today's config")
