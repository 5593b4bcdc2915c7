"""Tensors: the Open Inference Protocol v2 over REST with its binary extension, and Triton's further routes.

https://github.com/kserve/open-inference-protocol; the binary extension, model configuration, statistics and repository
index are those of Triton Inference Server's documentation, so that tritonclient and perf_analyzer work.
"""

from collections import ChainMap
from collections.abc import Collection, Mapping, Sequence
from importlib import metadata
from typing import Any

import msgspec
import numpy as np

from nightshift import DISTRIBUTION
from nightshift.contracts.package import OUTPUT, Datatype
from nightshift.contracts.package import Tensor as Signature
from nightshift.http.errors import NotFoundError, RequestError
from nightshift.http.messages import HttpRequest, HttpResponse
from nightshift.models.tensors import Array
from nightshift.serving.answers import Answer
from nightshift.serving.batching import ServerLimits
from nightshift.serving.items.decoder import DecodedItems, DecoderPool
from nightshift.serving.items.schema import FieldContents
from nightshift.serving.protocols import features, items
from nightshift.serving.protocols.request_tensors import (
    FLOAT32,
    Input,
    Parameters,
    RequestTensor,
    check_rows,
    read_arrays,
    read_tensors,
)
from nightshift.serving.versions import Model, ModelManager

HEADER_LENGTH = b"inference-header-content-length"
ROW = "inputs[0].data[{}]".format
# the binary extension's requests too, as Triton's clients and SageMaker name them
CONTENT_TYPES = ("application/json", "application/octet-stream", "application/vnd.sagemaker-triton.binary+json")
EXTENSIONS = ["binary_tensor_data", "classification", "model_configuration", "model_repository", "statistics"]
PLATFORM = "onnxruntime_onnx"
Outputs = Mapping[str, Array | list[str]]
MAX_DIGITS = 19  # a length in 64 bits has no more


class Output(msgspec.Struct):
    """A requested output tensor."""

    name: str
    parameters: Parameters = msgspec.field(default_factory=Parameters)


class Inference(msgspec.Struct):
    """A request of the protocol."""

    inputs: list[Input]
    outputs: list[Output] = []
    id: str | None = None
    parameters: Parameters = msgspec.field(default_factory=Parameters)


_DECODER = msgspec.json.Decoder(Inference)


async def infer(model: Model, limits: ServerLimits, request: HttpRequest) -> Answer:
    """Answer a request of tensors.

    Raises:
        RequestError: when the request is not valid, or does not fit the model's signature.
        OverloadedError: when too much waits.
    """
    head, payload = _split_body(request.body, request.header(HEADER_LENGTH))
    try:
        inference = _DECODER.decode(head)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError("body", str(error), "an inference request of the Open Inference Protocol") from None
    tensors = read_tensors(inference.inputs, payload, model.forms)
    outputs = _read_outputs(inference, model, model.find_outputs(tensors))
    if model.decoder:
        decoded = await _decode_items(model.decoder, tensors, limits.rows)
        return await _infer_items(model, model.decoder, outputs, decoded)
    scores = await model.batcher.score(read_arrays(tensors, limits.rows, model.encoder.nullable), ROW)
    _, scored = features.describe_scores(model, scores)
    return Answer(_respond_scores(model, outputs, {OUTPUT: scores}, scored.labels), [scored])


async def _decode_items(decoder: DecoderPool, tensors: Mapping[str, RequestTensor], max_rows: int) -> DecodedItems:
    """Decode items from their fields' contents; a request may send the graph's inputs instead."""
    if any(tensor.signature.datatype is not Datatype.BYTES for tensor in tensors.values()):
        arrays = read_arrays(tensors, max_rows)
        fields = [field for field in decoder.items.fields if field.input in arrays]
        for field in fields:
            field.check(arrays[field.input], f"{tensors[field.input].field}.data")
        return await decoder.hash_inputs({field.input: arrays[field.input] for field in fields})
    elements = {name: tensor.elements(max_rows) for name, tensor in tensors.items()}
    check_rows(tensors, elements)
    return await decoder.decode({name: _contents(tensors[name], elements[name]) for name in tensors})


def _contents(tensor: RequestTensor, elements: Sequence[object]) -> FieldContents:
    return FieldContents(elements, [f"{tensor.field}.data[{i}]" for i in range(len(elements))])


async def _infer_items(
    model: Model, decoder: DecoderPool, requested: "RequestedOutputs", decoded: DecodedItems
) -> Answer:
    outputs = await model.run(decoded.inputs, ROW)
    further = await decoder.describe(outputs)
    texts = {name: [msgspec.json.encode(row[name]).decode() for row in further] for name in further[0]}
    if OUTPUT not in outputs:
        return Answer(_respond(model, requested, {**outputs, **texts}), [])
    scored = items.describe_scores(model, decoder.items, outputs[OUTPUT], decoded, [None] * len(further))
    labels = [item.label for item in scored.items if item.label is not None]
    return Answer(_respond_scores(model, requested, {**outputs, **texts}, labels), [scored])


def _split_body(body: bytes, length: str) -> tuple[bytes, bytes]:
    if not length:
        return body, b""
    # digits are checked before `int`, which refuses thousands of them
    if not length.isdecimal() or len(length) > MAX_DIGITS or int(length) > len(body):
        raise RequestError("Inference-Header-Content-Length", length, f"a number of at most {len(body)} bytes")
    return body[: int(length)], body[int(length) :]


class RequestedOutputs(msgspec.Struct):
    """The outputs of a request.

    Attributes:
        id: id of the request, copied to the response.
        binary: output -> whether its values follow the JSON as bytes.
        classes: number of each row's scores, the highest first, in the form of Triton's classification extension; 0:
            all scores, as numbers.
    """

    id: str | None
    binary: dict[str, bool]
    classes: int = 0


def _read_outputs(request: Inference, model: Model, known: Collection[str]) -> RequestedOutputs:
    default = request.parameters.binary_data_output
    if not request.outputs:
        return RequestedOutputs(request.id, dict.fromkeys(known, default))
    binary = {}
    for output in request.outputs:
        if output.name not in known:
            raise RequestError("outputs", output.name, " or ".join(map(repr, known)))
        is_binary = output.parameters.binary_data
        binary[output.name] = default if is_binary is None else is_binary
    return RequestedOutputs(request.id, binary, _read_classes(request.outputs, model))


def _read_classes(outputs: Sequence[Output], model: Model) -> int:
    """Return the requested number of classes per row; 0: all scores."""
    for index, output in enumerate(outputs):
        count = output.parameters.classification
        limit = len(model.classes) if output.name == OUTPUT else 0
        if not 0 <= count <= limit:
            allowed = f"a number up to {limit}" if limit else "none: this output has no classes"
            raise RequestError(f"outputs[{index}].parameters.classification", count, allowed)
        if count:
            return count
    return 0


def _format_classes(scores: Array, classes: Sequence[str], count: int) -> list[str]:
    """Return each row's highest scores as `score:index:class`, the highest first, one row after the other.

    Args:
        scores: (n, classes).
        classes: their names.
        count: classes per row.
    """
    best = np.argsort(-scores, axis=1, kind="stable")[:, :count].tolist()
    return [f"{row[i]:f}:{i}:{classes[i]}" for row, order in zip(scores, best, strict=True) for i in order]


def _respond_scores(model: Model, requested: RequestedOutputs, outputs: Outputs, labels: Sequence[str]) -> HttpResponse:
    """Return outputs, of classes the highest scores if they are requested so, and the predicted classes."""
    values: Outputs = {**outputs, "label": [*labels]}
    scores = outputs[OUTPUT]
    if requested.classes and isinstance(scores, np.ndarray):
        values = {**values, OUTPUT: _format_classes(scores, model.classes, requested.classes)}
    return _respond(model, requested, values)


def _respond(model: Model, requested: RequestedOutputs, outputs: Outputs) -> HttpResponse:
    """Return the requested of a model's outputs."""
    tensors, payloads = [], []
    for name, is_binary in requested.binary.items():
        values = outputs[name]
        shape = [*values.shape] if isinstance(values, np.ndarray) else [len(values)]
        datatype = model.outputs[name].datatype if isinstance(values, np.ndarray) else Datatype.BYTES
        if name == OUTPUT and requested.classes:
            shape = [len(values) // requested.classes, requested.classes]
        tensor: dict[str, Any] = {"name": name, "datatype": datatype, "shape": shape}
        if is_binary:
            payloads.append(_encode_binary(values))
            tensor["parameters"] = {"binary_data_size": len(payloads[-1])}
        else:
            tensor["data"] = values.ravel().tolist() if isinstance(values, np.ndarray) else values
        tensors.append(tensor)
    content = {"model_name": model.name, "model_version": str(model.pointer.version), "outputs": tensors}
    if requested.id is not None:
        content["id"] = requested.id
    if not payloads:
        return HttpResponse.json(content)
    head = msgspec.json.encode(content)
    headers = {"content-type": "application/octet-stream", "inference-header-content-length": str(len(head))}
    return HttpResponse(b"".join([head, *payloads]), headers=headers)


def _encode_binary(values: Array | list[str]) -> bytes:
    if isinstance(values, np.ndarray):
        return values.astype(FLOAT32, copy=False).tobytes()
    return b"".join(len(text).to_bytes(4, "little") + text for text in map(str.encode, values))


def describe_server() -> dict[str, Any]:
    """Return the server's name, version and extensions of the protocol."""
    return {"name": "nightshift", "version": metadata.version(DISTRIBUTION), "extensions": EXTENSIONS}


def describe_model(model: Model) -> dict[str, Any]:
    """Return a model's name, versions and tensors."""
    return {
        "name": model.name,
        "versions": [str(model.pointer.version)],
        "platform": PLATFORM,
        "inputs": [tensor.model_dump(mode="json") for tensor in _list_inputs(model)],
        "outputs": [tensor.model_dump(mode="json") for tensor in model.outputs.values()],
    }


def _list_inputs(model: Model) -> list[Signature]:
    """Return the tensors of all forms of a request, each once."""
    return [*dict(ChainMap(*reversed(model.forms))).values()]


def configuration(model: Model, limits: ServerLimits) -> dict[str, Any]:
    """Return a model's configuration in Triton's terms, as far as it applies to this server."""
    # a request has the tensors of one form
    optional = {"optional": True} if len(model.forms) > 1 else {}
    return {
        "name": model.name,
        "platform": PLATFORM,
        "backend": "onnxruntime",
        "max_batch_size": limits.rows,
        "input": [_describe_tensor(tensor) | optional for tensor in _list_inputs(model)],
        "output": [_describe_tensor(tensor) for tensor in model.outputs.values()],
        "dynamic_batching": {"max_queue_delay_microseconds": round(limits.delay * 1e6)},
    }


def _describe_tensor(tensor: Signature) -> dict[str, Any]:
    kind = "STRING" if tensor.datatype is Datatype.BYTES else tensor.datatype
    # Triton's tensors have dimensions beside that of the batch
    dims = {"dims": tensor.shape[1:]} if tensor.shape[1:] else {"dims": [1], "reshape": {"shape": []}}
    return {"name": tensor.name, "data_type": f"TYPE_{kind}"} | dims


def statistics(model: Model) -> dict[str, Any]:
    """Return a version's counts since it was loaded, in Triton's terms."""
    counts = model.statistics
    spent = {"success": counts.queue_ns + counts.compute_ns, "queue": counts.queue_ns}
    spent |= {"compute_input": 0, "compute_infer": counts.compute_ns, "compute_output": 0}
    durations = {name: {"count": counts.requests, "ns": time} for name, time in spent.items()}
    durations |= {"fail": {"count": counts.failed, "ns": 0}}
    durations |= {name: {"count": 0, "ns": 0} for name in ("cache_hit", "cache_miss")}
    stats = {
        "name": model.name,
        "version": str(model.pointer.version),
        "last_inference": counts.last_ms,
        "inference_count": counts.rows,
        "execution_count": counts.calls,
        "inference_stats": durations,
        "batch_stats": [],
    }
    return {"model_stats": [stats]}


def index(model: Model) -> list[dict[str, str]]:
    """Return the repository's index: the one served model."""
    return [{"name": model.name, "version": str(model.pointer.version), "state": "READY", "reason": ""}]


def find(manager: ModelManager, name: str, version: str | None) -> Model:
    """Return the version that a request names.

    Raises:
        NotFoundError: naming the served version.
    """
    model = manager.model if version is None else manager.find(version)
    if name == manager.model.name and model is not None:
        return model
    unknown, served = name if version is None else f"{name}, version {version}", manager.model
    raise NotFoundError(f"unknown model: {unknown}; this server has {served.name}, version {served.pointer.version}")
