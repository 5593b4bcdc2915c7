"""The tensors of an inference request; their values are in its JSON, or follow it as bytes."""

import math
import struct
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from itertools import chain
from math import prod
from typing import Any

import msgspec
import numpy as np

from nightshift.contracts.package import Datatype
from nightshift.contracts.package import Tensor as Signature
from nightshift.http.errors import RequestError
from nightshift.models.tensors import Array

FLOAT32 = np.dtype("<f4")

_FLAT, _NESTED = msgspec.json.Decoder(list[float]), msgspec.json.Decoder(list[list[float]])
_NULLABLE = msgspec.json.Decoder(list[float | list[float | None] | None])
_TEXTS, _COLUMN = msgspec.json.Decoder(list[str]), msgspec.json.Decoder(list[tuple[str]])


class Parameters(msgspec.Struct):
    """Parameters of a request, an input or an output; unknown ones are ignored, as the protocol requires."""

    binary_data_size: int | None = None
    binary_data: bool | None = None
    binary_data_output: bool = False
    classification: int = 0


class Input(msgspec.Struct):
    """A tensor of a request; its values follow the JSON where it has a `binary_data_size`."""

    name: str
    shape: list[int]
    datatype: str
    parameters: Parameters = msgspec.field(default_factory=Parameters)
    data: msgspec.Raw = msgspec.Raw()


class RequestTensor(msgspec.Struct):
    """A tensor of a request with its signature.

    Attributes:
        field: name of its field in the request.
        input: the tensor.
        signature: the model's tensor of the same name.
        payload: its values as bytes; empty when they are in the JSON.
    """

    field: str
    input: Input
    signature: Signature
    payload: bytes

    def array(self, max_rows: int, nullable: Collection[int] = ()) -> Array:
        """Return the numbers, (n, ...), with n at most `max_rows`; NaN, or null in JSON, only in nullable columns.

        Raises:
            RequestError: when the tensor has another type, shape or number of values.
        """
        self._check([self.signature.shape[1:]], max_rows)
        is_json = self.input.parameters.binary_data_size is None
        values = self._parse_json(nullable) if is_json else self._parse_binary()
        # numbers in JSON are finite, and else null
        if (nullable or not is_json) and values.dtype.kind == "f" and not np.isfinite(values).all():
            self._check_missing(values, nullable)
        size = prod(self.input.shape)
        if values.size != size:
            raise RequestError(f"{self.field}.data", f"{values.size} values", f"{size}, as the shape says")
        return values.reshape(self.input.shape)

    def elements(self, max_rows: int) -> Sequence[object]:
        """Return the elements of a tensor of BYTES, at most `max_rows`: bytes, or JSON values.

        Raises:
            RequestError: when the tensor has another type, shape or number of elements.
        """
        # Triton's tensors have a dimension beside that of the batch
        self._check([[], [1]], max_rows)
        is_binary = self.input.parameters.binary_data_size is not None
        elements: Sequence[object] = list(self._split_binary()) if is_binary else self._parse_strings()
        if len(elements) != self.input.shape[0]:
            allowed = f"{self.input.shape[0]}, as the shape says"
            raise RequestError(f"{self.field}.data", f"{len(elements)} values", allowed)
        return elements

    def _check(self, shapes: list[list[int]], max_rows: int) -> None:
        """Refuse another type or shape; `shapes` are the allowed shapes of a row."""
        tensor, name = self.input, self.signature.name
        if tensor.datatype != self.signature.datatype:
            raise RequestError(f"{self.field}.datatype", tensor.datatype, f"{self.signature.datatype} for {name!r}")
        if not tensor.shape or tensor.shape[1:] not in shapes or not 1 <= tensor.shape[0] <= max_rows:
            allowed = " or ".join(f"[{', '.join(map(str, ['n', *shape]))}]" for shape in shapes)
            raise RequestError(
                f"{self.field}.shape", tensor.shape, f"{allowed} with n from 1 to {max_rows} for {name!r}"
            )

    def _parse_binary(self) -> Array:
        dtype = _little_endian(self.input.datatype)
        if len(self.payload) % dtype.itemsize:
            field = f"{self.field}.parameters.binary_data_size"
            raise RequestError(field, len(self.payload), f"a multiple of {dtype.itemsize}")
        return np.frombuffer(self.payload, dtype)

    def _check_missing(self, values: Array, nullable: Collection[int]) -> None:
        """Refuse infinity, and NaN in columns that are not nullable."""
        width = prod(self.input.shape[1:])
        for index in np.flatnonzero(~np.isfinite(values)).tolist():
            if np.isinf(values[index]) or index % width not in nullable:
                allowed = "finite numbers, or NaN where they may be missing" if nullable else "finite numbers"
                raise RequestError(f"{self.field}.data[{index}]", str(values[index]), allowed)

    def _split_binary(self) -> Iterator[bytes]:
        """Yield the elements of BYTES; each follows its length, 4 bytes, little-endian."""
        first, payload = 0, self.payload
        while first < len(payload):
            last = first + 4 + int.from_bytes(payload[first : first + 4], "little")
            if last > len(payload):
                allowed = "elements with their length before each, 4 bytes"
                raise RequestError(f"{self.field}.data", "cut short", allowed)
            yield payload[first + 4 : last]
            first = last

    def _parse_strings(self) -> list[str]:
        with suppress(msgspec.DecodeError, UnicodeDecodeError):
            return _TEXTS.decode(self.input.data)
        with suppress(msgspec.DecodeError, UnicodeDecodeError):
            return [text for (text,) in _COLUMN.decode(self.input.data)]
        raise self._refuse_data("texts in one list, or bytes behind the JSON")

    def _parse_json(self, nullable: Collection[int]) -> Array:
        dtype = _little_endian(self.input.datatype)
        return self._parse_floats(nullable) if dtype.kind == "f" else self._parse_integers(dtype)

    def _parse_integers(self, dtype: np.dtype[Any]) -> Array:
        bounds = np.iinfo(dtype)
        with suppress(msgspec.DecodeError, ValueError, RecursionError):
            values = np.asarray(msgspec.json.decode(self.input.data))
            if values.dtype.kind == "i" and bounds.min <= values.min() <= values.max() <= bounds.max:
                return values.astype(dtype).ravel()
        raise self._refuse_data(f"whole numbers from {bounds.min} to {bounds.max} in lists")

    def _parse_floats(self, nullable: Collection[int]) -> Array:
        try:
            values = _FLAT.decode(self.input.data)
        except (msgspec.DecodeError, UnicodeDecodeError):
            values = self._parse_nested(_read_nullable if nullable else _NESTED.decode)
        try:
            return np.frombuffer(_packer(len(values)).pack(*values), FLOAT32)
        except OverflowError:
            allowed = "numbers within the range of float32"
            raise RequestError(f"{self.field}.data", "a larger number", allowed) from None

    def _parse_nested(self, read: Callable[[msgspec.Raw], list[list[float]]]) -> list[float]:
        with suppress(msgspec.DecodeError, UnicodeDecodeError):
            rows = read(self.input.data)
            if len({len(row) for row in rows}) <= 1:
                return list(chain.from_iterable(rows))
        raise self._refuse_data("numbers in one list, or in a list a row")

    def _refuse_data(self, allowed: str) -> RequestError:
        shown = bytes(self.input.data)[:100].decode("utf-8", "replace") or "missing"
        return RequestError(f"{self.field}.data", shown, allowed)


def _read_nullable(data: msgspec.Raw) -> list[list[float]]:
    """Return rows of numbers, NaN for null; numbers in one list are rows of one."""
    rows = (row if isinstance(row, list) else [row] for row in _NULLABLE.decode(data))
    return [[math.nan if value is None else value for value in row] for row in rows]


def read_tensors(
    inputs: Sequence[Input], payload: bytes, forms: Sequence[Mapping[str, Signature]]
) -> dict[str, RequestTensor]:
    """Return the tensors of a request by name, in the order of their form.

    Args:
        inputs: the tensors, in any order.
        payload: the bytes behind the JSON.
        forms: alternative sets of tensors, by name; a request has all tensors of one.

    Raises:
        RequestError: when a tensor is missing or unknown, or the payload's size is not the sum of theirs.
    """
    names = [tensor.name for tensor in inputs]
    form = next((form for form in forms if len(names) == len(form) and set(names) == set(form)), None)
    if form is None:
        wanted = " or ".join(" and ".join(map(repr, form)) for form in forms)
        raise RequestError("inputs", names, f"one input, {wanted}" if len(forms[0]) == 1 else wanted)
    payloads = zip(inputs, _divide(inputs, payload), strict=True)
    tensors = {
        tensor.name: RequestTensor(f"inputs[{index}]", tensor, form[tensor.name], part)
        for index, (tensor, part) in enumerate(payloads)
    }
    return tensors if len(tensors) == 1 else {name: tensors[name] for name in form}


def read_arrays(
    tensors: Mapping[str, RequestTensor], max_rows: int, nullable: Collection[int] = ()
) -> dict[str, Array]:
    """Return numbers by name, with the same number of rows, at most `max_rows`; NaN only in nullable columns.

    Raises:
        RequestError: when a tensor differs from the model's signature, or has more or fewer rows than the first.
    """
    arrays = {name: tensor.array(max_rows, nullable) for name, tensor in tensors.items()}
    check_rows(tensors, arrays)
    return arrays


def check_rows(tensors: Mapping[str, RequestTensor], values: Mapping[str, Sequence[object] | Array]) -> None:
    """Refuse a request whose tensors have different numbers of rows.

    Raises:
        RequestError: for the first tensor that differs from the first one.
    """
    first, *others = values
    for name in others:
        if len(values[name]) != len(values[first]):
            allowed = f"as many rows for {name!r} as for {first!r}, {len(values[first])}"
            raise RequestError(f"{tensors[name].field}.shape", tensors[name].input.shape, allowed)


def _divide(inputs: Sequence[Input], payload: bytes) -> Iterator[bytes]:
    """Yield the payload of each tensor; empty for one with its values in the JSON."""
    rest, last = payload, len(inputs) - 1
    for index, tensor in enumerate(inputs):
        size = tensor.parameters.binary_data_size
        if not 0 <= (size or 0) <= len(rest) or (index == last and (size or 0) != len(rest)):
            # the last tensor has the rest
            allowed = f"{len(rest)}, the bytes behind the JSON" if index == last else f"a number up to {len(rest)}"
            field = f"inputs[{index}].parameters.binary_data_size"
            raise RequestError(field, "missing" if size is None else size, f"{allowed}, or none there")
        yield rest[: size or 0]
        rest = rest[size or 0 :]


@cache
def _little_endian(datatype: str) -> np.dtype[Any]:
    return np.dtype(Datatype(datatype).dtype).newbyteorder("<")


@lru_cache  # bounded: a request chooses the count
def _packer(count: int) -> struct.Struct:
    return struct.Struct(f"<{count}f")
