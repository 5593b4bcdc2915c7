"""Tensors: the Open Inference Protocol v2 over REST with its binary extension, and what Triton's clients ask beside it.

https://github.com/kserve/open-inference-protocol; the binary extension, model configuration, statistics and repository
index are those of Triton Inference Server's documentation, so that tritonclient and perf_analyzer work.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from importlib import metadata
from itertools import chain
from math import prod
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from nightshift.contracts.package import OUTPUT, Datatype
from nightshift.contracts.package import Tensor as Signature
from nightshift.serving.answers import Answer, Scored
from nightshift.serving.batching import Limits, Statistics
from nightshift.serving.errors import NotFoundError, RequestError
from nightshift.serving.items.reader import Reader, Seen
from nightshift.serving.messages import Request, Response
from nightshift.serving.protocols import items
from nightshift.serving.versions import Current, Model

HEADER_LENGTH = b"inference-header-content-length"
ROW = "inputs[0].data[{}]".format
EXTENSIONS = ["binary_tensor_data", "classification", "model_configuration", "model_repository", "statistics"]
PLATFORM = "onnxruntime_onnx"
MAX_DIGITS = 19  # of a length
FLOAT32 = np.dtype("<f4")

Array = npt.NDArray[Any]


class Parameters(msgspec.Struct):
    """Parameters of a request, of an input or of an output; others are ignored, as the protocol asks."""

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


class Output(msgspec.Struct):
    """A tensor that is asked for."""

    name: str
    parameters: Parameters = msgspec.field(default_factory=Parameters)


class Inference(msgspec.Struct):
    """A request."""

    inputs: list[Input]
    outputs: list[Output] = []
    id: str | None = None
    parameters: Parameters = msgspec.field(default_factory=Parameters)


_DECODER = msgspec.json.Decoder(Inference)
_FLAT, _NESTED = msgspec.json.Decoder(list[float]), msgspec.json.Decoder(list[list[float]])
_TEXTS, _COLUMN = msgspec.json.Decoder(list[str]), msgspec.json.Decoder(list[tuple[str]])


async def infer(model: Model, limits: Limits, request: Request) -> Answer:
    """Answer a request of tensors.

    Raises:
        RequestError: when the request is not one, or not for this model's signature.
        OverloadedError: when too much waits already.
    """
    head, values = _parts(request.body, request.header(HEADER_LENGTH))
    try:
        asked = _DECODER.decode(head)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError("body", str(error), "an inference request of the Open Inference Protocol") from None
    given, wanted = _only(asked, model.taken)
    asks = _asked(asked, model)
    if values and given.parameters.binary_data_size is None:
        allowed = f"{len(values)}, the bytes behind the JSON, or none there"
        raise RequestError("inputs[0].parameters.binary_data_size", "missing", allowed)
    if model.reader:
        return await _of_items(model, model.reader, asks, await _seen(model.reader, given, wanted, limits.rows, values))
    scores = await model.batcher.score(_tensor(given, wanted, limits.rows, values), ROW)
    return Answer(_response(model, asks, {OUTPUT: scores}), [Scored(model, scores)])


async def _seen(reader: Reader, given: Input, wanted: Signature, most: int, values: bytes) -> Seen:
    if wanted.datatype is not Datatype.BYTES:
        return await reader.hashed(_tensor(given, wanted, most, values))
    elements = _elements(given, most, values)
    return await reader.read(elements, [f"inputs[0].data[{i}]" for i in range(len(elements))])


async def _of_items(model: Model, reader: Reader, asks: "Asks", seen: Seen) -> Answer:
    scores = await model.batcher.score(seen.inputs, ROW)
    part = items.scored(model, reader.items, scores, seen, [None] * len(scores))
    labels = [each.label for each in part.items]
    shown: Array | list[str] = scores
    if asks.classes:
        shown = _classified(scores, reader.items.classes, asks.classes)
    return Answer(_response(model, asks, {OUTPUT: shown, "label": labels}), [part])


def _parts(body: bytes, length: str) -> tuple[bytes, bytes]:
    if not length:
        return body, b""
    # in two steps: Python reads no number of thousands of digits
    if not length.isdecimal() or len(length) > MAX_DIGITS or int(length) > len(body):
        raise RequestError("Inference-Header-Content-Length", length, f"a number of at most {len(body)} bytes")
    return body[: int(length)], body[int(length) :]


def _only(asked: Inference, known: Mapping[str, Signature]) -> tuple[Input, Signature]:
    if len(asked.inputs) == 1 and (wanted := known.get(asked.inputs[0].name)):
        return asked.inputs[0], wanted
    names = " or ".join(map(repr, known))
    raise RequestError("inputs", [each.name for each in asked.inputs], f"one input, {names}")


def _check(given: Input, wanted: Signature, shapes: list[list[int]], most: int) -> None:
    """Refuse another type or shape; `shapes` are those allowed of a row."""
    if given.datatype != wanted.datatype:
        raise RequestError("inputs[0].datatype", given.datatype, str(wanted.datatype))
    if not given.shape or given.shape[1:] not in shapes or not 1 <= given.shape[0] <= most:
        allowed = " or ".join(f"[{', '.join(map(str, ['n', *shape]))}]" for shape in shapes)
        raise RequestError("inputs[0].shape", given.shape, f"{allowed} with n from 1 to {most}")


def _tensor(given: Input, wanted: Signature, most: int, values: bytes) -> Array:
    """Return a tensor of numbers."""
    _check(given, wanted, [wanted.shape[1:]], most)
    found = _listed(given) if given.parameters.binary_data_size is None else _behind(given, values)
    size = prod(given.shape)
    if found.size != size:
        raise RequestError("inputs[0].data", f"{found.size} values", f"{size}, as the shape says")
    return found.reshape(given.shape)


def _behind(given: Input, values: bytes) -> Array:
    dtype = _little_endian(given.datatype)
    found = np.frombuffer(_binary(given, values, dtype.itemsize), dtype)
    if dtype.kind == "f" and not np.isfinite(found).all():
        place = int(np.flatnonzero(~np.isfinite(found))[0])
        raise RequestError(f"inputs[0].data[{place}]", str(found[place]), "finite numbers")
    return found


@cache
def _little_endian(datatype: str) -> np.dtype[Any]:
    return np.dtype(Datatype(datatype).dtype).newbyteorder("<")


def _elements(given: Input, most: int, values: bytes) -> Sequence[object]:
    """Return the elements of a tensor of BYTES, bytes or what JSON has of them."""
    # Triton's tensors have a dimension beside that of the batch
    _check(given, Signature(name=given.name, datatype=Datatype.BYTES, shape=[-1]), [[], [1]], most)
    is_binary = given.parameters.binary_data_size is not None
    found: Sequence[object] = list(_split(_binary(given, values, 1))) if is_binary else _strings(given)
    if len(found) != given.shape[0]:
        raise RequestError("inputs[0].data", f"{len(found)} values", f"{given.shape[0]}, as the shape says")
    return found


def _binary(given: Input, values: bytes, itemsize: int) -> bytes:
    size = given.parameters.binary_data_size
    if size != len(values) or size % itemsize:
        allowed = f"{len(values)}, the bytes behind the JSON, a multiple of {itemsize}"
        raise RequestError("inputs[0].parameters.binary_data_size", size, allowed)
    return values


def _split(values: bytes) -> Iterator[bytes]:
    """Yield the elements of BYTES: each has its length before it, 4 bytes, little-endian."""
    first = 0
    while first < len(values):
        last = first + 4 + int.from_bytes(values[first : first + 4], "little")
        if last > len(values):
            raise RequestError("inputs[0].data", "cut short", "elements with their length before each, 4 bytes")
        yield values[first + 4 : last]
        first = last


def _strings(given: Input) -> list[str]:
    with suppress(msgspec.DecodeError, UnicodeDecodeError):
        return _TEXTS.decode(given.data)
    with suppress(msgspec.DecodeError, UnicodeDecodeError):
        return [text for (text,) in _COLUMN.decode(given.data)]
    raise RequestError("inputs[0].data", _shown(given), "texts in one list, or bytes behind the JSON")


def _listed(given: Input) -> Array:
    dtype = _little_endian(given.datatype)
    return _floats(given) if dtype.kind == "f" else _integers(given, dtype)


def _integers(given: Input, dtype: np.dtype[Any]) -> Array:
    bounds = np.iinfo(dtype)
    with suppress(msgspec.DecodeError, ValueError, RecursionError):
        found = np.asarray(msgspec.json.decode(given.data))
        if found.dtype.kind == "i" and bounds.min <= found.min() <= found.max() <= bounds.max:
            return found.astype(dtype).ravel()
    raise RequestError("inputs[0].data", _shown(given), f"whole numbers from {bounds.min} to {bounds.max} in lists")


def _floats(given: Input) -> Array:
    try:
        values = _FLAT.decode(given.data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        values = _rows_of(given)
    try:
        return np.frombuffer(_packer(len(values)).pack(*values), FLOAT32)
    except OverflowError:
        raise RequestError("inputs[0].data", "a larger number", "numbers within the range of float32") from None


@lru_cache  # bounded: a request chooses the count
def _packer(count: int) -> struct.Struct:
    return struct.Struct(f"<{count}f")


def _shown(given: Input) -> str:
    return bytes(given.data)[:100].decode("utf-8", "replace") or "missing"


def _rows_of(given: Input) -> list[float]:
    with suppress(msgspec.DecodeError, UnicodeDecodeError):
        rows = _NESTED.decode(given.data)
        if len({len(row) for row in rows}) <= 1:
            return list(chain.from_iterable(rows))
    raise RequestError("inputs[0].data", _shown(given), "numbers in one list, or in a list a row")


class Asks(msgspec.Struct):
    """What a request says of its answer.

    Attributes:
        id: that it gives itself.
        outputs: name of each that is wanted -> whether as bytes behind the JSON.
        classes: how many of each row's scores are wanted, the highest first, as Triton's classification extension
            writes them; 0: all of them, as numbers.
    """

    id: str | None
    outputs: dict[str, bool]
    classes: int = 0


def _asked(asked: Inference, model: Model) -> Asks:
    usual, known = asked.parameters.binary_data_output, model.given
    if not asked.outputs:
        return Asks(asked.id, dict.fromkeys(known, usual))
    found = {}
    for each in asked.outputs:
        if each.name not in known:
            raise RequestError("outputs", each.name, " or ".join(map(repr, known)))
        said = each.parameters.binary_data
        found[each.name] = usual if said is None else said
    return Asks(asked.id, found, _classes(asked.outputs, model))


def _classes(outputs: Sequence[Output], model: Model) -> int:
    """Return how many classes are wanted of each row's scores."""
    for place, each in enumerate(outputs):
        wanted = each.parameters.classification
        most = len(model.reader.items.classes) if model.reader and each.name == OUTPUT else 0
        if not 0 <= wanted <= most:
            allowed = f"a number up to {most}" if most else "none: this output has no classes"
            raise RequestError(f"outputs[{place}].parameters.classification", wanted, allowed)
        if wanted:
            return wanted
    return 0


def _classified(scores: Array, classes: Sequence[str], wanted: int) -> list[str]:
    """Return each row's highest scores as `score:index:class`, the highest first, one row after the other.

    Args:
        scores: (n, classes).
        classes: their names.
        wanted: how many.
    """
    best = np.argsort(-scores, axis=1, kind="stable")[:, :wanted].tolist()
    return [f"{row[i]:f}:{i}:{classes[i]}" for row, order in zip(scores, best, strict=True) for i in order]


def _response(model: Model, asks: Asks, found: Mapping[str, Array | list[str]]) -> Response:
    """Return an answer; `found` are the values of `model.given`."""
    outputs, behind = [], []
    for name, is_binary in asks.outputs.items():
        values = found[name]
        shape = [*values.shape] if isinstance(values, np.ndarray) else [len(values)]
        datatype = model.given[name].datatype if isinstance(values, np.ndarray) else Datatype.BYTES
        if name == OUTPUT and asks.classes:
            shape = [len(values) // asks.classes, asks.classes]
        tensor: dict[str, Any] = {"name": name, "datatype": datatype, "shape": shape}
        if is_binary:
            behind.append(_bytes(values))
            tensor["parameters"] = {"binary_data_size": len(behind[-1])}
        else:
            tensor["data"] = values.ravel().tolist() if isinstance(values, np.ndarray) else values
        outputs.append(tensor)
    content = {"model_name": model.name, "model_version": str(model.pointer.version), "outputs": outputs}
    if asks.id is not None:
        content["id"] = asks.id
    if not behind:
        return Response.json(content)
    head = msgspec.json.encode(content)
    headers = {"content-type": "application/octet-stream", "inference-header-content-length": str(len(head))}
    return Response(b"".join([head, *behind]), headers=headers)


def _bytes(values: Array | list[str]) -> bytes:
    if isinstance(values, np.ndarray):
        return values.astype(FLOAT32, copy=False).tobytes()
    return b"".join(len(text).to_bytes(4, "little") + text for text in map(str.encode, values))


def server() -> dict[str, Any]:
    """Return what the server says of itself."""
    return {"name": "nightshift", "version": metadata.version("nightshift"), "extensions": EXTENSIONS}


def described(model: Model) -> dict[str, Any]:
    """Return a model's name, versions and tensors."""
    return {
        "name": model.name,
        "versions": [str(model.pointer.version)],
        "platform": PLATFORM,
        "inputs": [each.model_dump(mode="json") for each in model.taken.values()],
        "outputs": [each.model_dump(mode="json") for each in model.given.values()],
    }


def configuration(model: Model, limits: Limits) -> dict[str, Any]:
    """Return a model's configuration in Triton's terms, as far as this server has the same."""
    taken = model.taken.values()
    # of those that a request may have, it has one
    some = {"optional": True} if len(taken) > 1 else {}
    return {
        "name": model.name,
        "platform": PLATFORM,
        "backend": "onnxruntime",
        "max_batch_size": limits.rows,
        "input": [_configured(each) | some for each in taken],
        "output": [_configured(each) for each in model.given.values()],
        "dynamic_batching": {"max_queue_delay_microseconds": round(limits.delay * 1e6)},
    }


def _configured(tensor: Signature) -> dict[str, Any]:
    kind = "STRING" if tensor.datatype is Datatype.BYTES else tensor.datatype
    # Triton's tensors have dimensions beside that of the batch
    dims = {"dims": tensor.shape[1:]} if tensor.shape[1:] else {"dims": [1], "reshape": {"shape": []}}
    return {"name": tensor.name, "data_type": f"TYPE_{kind}"} | dims


def statistics(model: Model) -> dict[str, Any]:
    """Return what a version has done since it was loaded, in Triton's terms."""
    counts: Statistics = model.batcher.statistics
    spent = {"success": counts.queue_ns + counts.compute_ns, "queue": counts.queue_ns}
    spent |= {"compute_input": 0, "compute_infer": counts.compute_ns, "compute_output": 0}
    durations = {name: {"count": counts.requests, "ns": time} for name, time in spent.items()}
    durations |= {"fail": {"count": counts.failed, "ns": 0}}
    durations |= {name: {"count": 0, "ns": 0} for name in ("cache_hit", "cache_miss")}
    found = {
        "name": model.name,
        "version": str(model.pointer.version),
        "last_inference": counts.last_ms,
        "inference_count": counts.rows,
        "execution_count": counts.calls,
        "inference_stats": durations,
        "batch_stats": [],
    }
    return {"model_stats": [found]}


def index(model: Model) -> list[dict[str, str]]:
    """Return the repository: the one model that is served."""
    return [{"name": model.name, "version": str(model.pointer.version), "state": "READY", "reason": ""}]


def find(current: Current, name: str, version: str | None) -> Model:
    """Return the version that a request asks for.

    Raises:
        NotFoundError: naming the one that is served.
    """
    model = current.model if version is None else current.find(version)
    if name == current.model.name and model is not None:
        return model
    asked = name if version is None else f"{name}, version {version}"
    here = current.model
    said = f"unknown model: {asked}; this server has {here.name}, version {here.pointer.version}"
    raise NotFoundError(said)
