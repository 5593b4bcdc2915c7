"""Tensors: the Open Inference Protocol v2 over REST with its binary extension, and what Triton's clients ask beside it.

https://github.com/kserve/open-inference-protocol; the binary extension, model configuration, statistics and repository
index are those of Triton Inference Server's documentation, so that tritonclient and perf_analyzer work.
"""

from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

import msgspec
import numpy as np

from nightshift.contracts.package import OUTPUT, Datatype
from nightshift.contracts.package import Tensor as Signature
from nightshift.serving.answers import Answer, Scored
from nightshift.serving.batching import Limits, Statistics
from nightshift.serving.errors import NotFoundError, RequestError
from nightshift.serving.items.base import FieldContents
from nightshift.serving.items.reader import Reader, Seen
from nightshift.serving.messages import Request, Response
from nightshift.serving.protocols import items
from nightshift.serving.protocols.request_tensors import (
    FLOAT32,
    Input,
    Parameters,
    RequestTensor,
    check_rows,
    read_arrays,
    read_tensors,
)
from nightshift.serving.versions import Current, Model
from nightshift.tensors import Array

HEADER_LENGTH = b"inference-header-content-length"
ROW = "inputs[0].data[{}]".format
EXTENSIONS = ["binary_tensor_data", "classification", "model_configuration", "model_repository", "statistics"]
PLATFORM = "onnxruntime_onnx"
MAX_DIGITS = 19  # of a length


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


async def infer(model: Model, limits: Limits, request: Request) -> Answer:
    """Answer a request of tensors.

    Raises:
        RequestError: when the request is not one, or not for this model's signature.
        OverloadedError: when too much waits already.
    """
    head, payload = _parts(request.body, request.header(HEADER_LENGTH))
    try:
        asked = _DECODER.decode(head)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError("body", str(error), "an inference request of the Open Inference Protocol") from None
    tensors, asks = read_tensors(asked.inputs, payload, model.forms), _asked(asked, model)
    if model.reader:
        return await _of_items(model, model.reader, asks, await _seen(model.reader, tensors, limits.rows))
    scores = await model.batcher.score(read_arrays(tensors, limits.rows), ROW)
    return Answer(_response(model, asks, {OUTPUT: scores}), [Scored(model, scores)])


async def _seen(reader: Reader, tensors: Mapping[str, RequestTensor], most: int) -> Seen:
    """Read items from their fields' contents, or from the graph's inputs as they are."""
    if any(tensor.signature.datatype is not Datatype.BYTES for tensor in tensors.values()):
        arrays = read_arrays(tensors, most)
        for field in reader.items.fields:
            field.check(arrays[field.input], f"{tensors[field.input].field}.data")
        return await reader.hashed({field.input: arrays[field.input] for field in reader.items.fields})
    elements = {name: tensor.elements(most) for name, tensor in tensors.items()}
    check_rows(tensors, elements)
    return await reader.read({name: _contents(tensors[name], elements[name]) for name in tensors})


def _contents(tensor: RequestTensor, elements: Sequence[object]) -> FieldContents:
    return FieldContents(elements, [f"{tensor.field}.data[{i}]" for i in range(len(elements))])


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
        "inputs": [each.model_dump(mode="json") for form in model.forms for each in form.values()],
        "outputs": [each.model_dump(mode="json") for each in model.given.values()],
    }


def configuration(model: Model, limits: Limits) -> dict[str, Any]:
    """Return a model's configuration in Triton's terms, as far as this server has the same."""
    # a request has the tensors of one form
    some = {"optional": True} if len(model.forms) > 1 else {}
    return {
        "name": model.name,
        "platform": PLATFORM,
        "backend": "onnxruntime",
        "max_batch_size": limits.rows,
        "input": [_configured(each) | some for form in model.forms for each in form.values()],
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
