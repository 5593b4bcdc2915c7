"""Tensors: the Open Inference Protocol v2 over REST with its binary extension, and what Triton's clients ask beside it.

https://github.com/kserve/open-inference-protocol; the binary extension, model configuration, statistics and repository
index are those of Triton Inference Server's documentation, so that tritonclient and perf_analyzer work.
"""

from contextlib import suppress
from http import HTTPStatus
from importlib import metadata
from itertools import chain
from math import isfinite
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from components.common.contracts.package import Tensor as Signature
from components.serving.batching import Limits, Statistics
from components.serving.messages import RefusedError, Request, RequestError, Response
from components.serving.predictions import Answer, Scored
from components.serving.versions import Current, Model

HEADER_LENGTH = b"inference-header-content-length"
EXTENSIONS = ["binary_tensor_data", "model_configuration", "model_repository", "statistics"]
PLATFORM = "onnxruntime_onnx"

Matrix = npt.NDArray[np.float32]


class Parameters(msgspec.Struct):
    """Parameters of a request, of an input or of an output; others are ignored, as the protocol asks."""

    binary_data_size: int | None = None
    binary_data: bool | None = None
    binary_data_output: bool = False


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
LARGEST = float(np.finfo(np.float32).max)
_FLAT, _NESTED = msgspec.json.Decoder(list[float]), msgspec.json.Decoder(list[list[float]])


async def infer(model: Model, limits: Limits, request: Request) -> Answer:
    """Answer a request of tensors.

    Raises:
        RequestError: when the request is not one, or not for this model's signature.
        RefusedError: when too much waits already.
    """
    head, values = _parts(await request.body(), request.header(HEADER_LENGTH))
    try:
        asked = _DECODER.decode(head)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError("body", str(error), "an inference request of the Open Inference Protocol") from None
    (wanted,), (given,) = model.package.signature.inputs, model.package.signature.outputs
    is_binary = _is_binary(asked, given.name)
    scores = await model.batcher.score(_matrix(_only(asked, wanted), wanted, limits.rows, values))
    return Answer(_response(model, asked, scores, is_binary), [Scored(model, scores)])


def _parts(body: bytes, length: str) -> tuple[bytes, bytes]:
    if not length:
        return body, b""
    if not length.isdecimal() or int(length) > len(body):
        raise RequestError("Inference-Header-Content-Length", length, f"a number of at most {len(body)} bytes")
    return body[: int(length)], body[int(length) :]


def _only(asked: Inference, wanted: Signature) -> Input:
    if [each.name for each in asked.inputs] != [wanted.name]:
        raise RequestError("inputs", [each.name for each in asked.inputs], f"one input, {wanted.name!r}")
    return asked.inputs[0]


def _matrix(given: Input, wanted: Signature, most: int, values: bytes) -> Matrix:
    if given.datatype != wanted.datatype:
        raise RequestError("inputs[0].datatype", given.datatype, str(wanted.datatype))
    width = wanted.shape[1]
    if len(given.shape) != 2 or given.shape[1] != width or not 1 <= given.shape[0] <= most:
        raise RequestError("inputs[0].shape", given.shape, f"[n, {width}] with n from 1 to {most}")
    found = _binary(given, values) if given.parameters.binary_data_size is not None else _listed(given)
    size = given.shape[0] * width
    if found.size != size:
        raise RequestError("inputs[0].data", f"{found.size} values", f"{size}, as the shape says")
    return found.reshape(given.shape)


def _binary(given: Input, values: bytes) -> Matrix:
    size = given.parameters.binary_data_size
    if size != len(values) or size % 4:
        allowed = f"{len(values)}, the bytes behind the JSON, a multiple of 4"
        raise RequestError("inputs[0].parameters.binary_data_size", size, allowed)
    return np.frombuffer(values, "<f4")


def _listed(given: Input) -> Matrix:
    for decode in (_FLAT.decode, _rows_of):
        with suppress(msgspec.DecodeError, ValueError):
            values = decode(given.data)
            if values and not -LARGEST <= min(values) <= max(values) <= LARGEST:
                raise RequestError("inputs[0].data", "a larger number", "numbers within the range of float32")
            return np.array(values, np.float32)
    shown = bytes(given.data)[:100].decode("utf-8", "replace") or "missing"
    raise RequestError("inputs[0].data", shown, "numbers in one list, or in a list a row")


def _rows_of(data: msgspec.Raw) -> list[float]:
    rows = _NESTED.decode(data)
    if len({len(row) for row in rows}) > 1:
        raise ValueError
    return list(chain.from_iterable(rows))


def _is_binary(asked: Inference, name: str) -> bool:
    for each in asked.outputs:
        if each.name != name:
            raise RequestError("outputs", each.name, repr(name))
        if each.parameters.binary_data is not None:
            return each.parameters.binary_data
    return asked.parameters.binary_data_output


def _response(model: Model, asked: Inference, scores: Matrix, is_binary: bool) -> Response:
    (output,) = model.package.signature.outputs
    tensor: dict[str, Any] = {"name": output.name, "datatype": output.datatype, "shape": scores.shape}
    content = {"model_name": model.name, "model_version": str(model.pointer.version), "outputs": [tensor]}
    if asked.id is not None:
        content["id"] = asked.id
    if not is_binary:
        tensor["data"] = _finite(scores.tolist())
        return Response.of(content)
    values = scores.astype("<f4", copy=False).tobytes()
    tensor["parameters"] = {"binary_data_size": len(values)}
    head = msgspec.json.encode(content)
    headers = {"inference-header-content-length": str(len(head))}
    return Response(head + values, HTTPStatus.OK, "application/octet-stream", headers)


def _finite(scores: list[float]) -> list[float]:
    for row, score in enumerate(scores):
        if not isfinite(score):  # JSON has no number for it
            raise RequestError(f"row {row}", "without a finite score", "values nearer to those seen in training")
    return scores


def server() -> dict[str, Any]:
    """Return what the server says of itself."""
    return {"name": "nightshift", "version": metadata.version("nightshift"), "extensions": EXTENSIONS}


def described(model: Model) -> dict[str, Any]:
    """Return a model's name, versions and tensors."""
    signature = model.package.signature
    return {
        "name": model.name,
        "versions": [str(model.pointer.version)],
        "platform": PLATFORM,
        "inputs": [each.model_dump(mode="json") for each in signature.inputs],
        "outputs": [each.model_dump(mode="json") for each in signature.outputs],
    }


def configuration(model: Model, limits: Limits) -> dict[str, Any]:
    """Return a model's configuration in Triton's terms, as far as this server has the same."""
    (wanted,), (given,) = model.package.signature.inputs, model.package.signature.outputs
    return {
        "name": model.name,
        "platform": PLATFORM,
        "backend": "onnxruntime",
        "max_batch_size": limits.rows,
        "input": [{"name": wanted.name, "data_type": f"TYPE_{wanted.datatype}", "dims": wanted.shape[1:]}],
        # Triton's tensors have dimensions beside that of the batch
        "output": [{"name": given.name, "data_type": f"TYPE_{given.datatype}", "dims": [1], "reshape": {"shape": []}}],
        "dynamic_batching": {"max_queue_delay_microseconds": round(limits.delay * 1e6)},
    }


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
        RefusedError: 404 that names the one that is served.
    """
    model = current.model if version is None else current.find(version)
    if name == current.model.name and model is not None:
        return model
    asked = name if version is None else f"{name}, version {version}"
    here = current.model
    said = f"unknown model: {asked}; this server has {here.name}, version {here.pointer.version}"
    raise RefusedError(HTTPStatus.NOT_FOUND, said)
