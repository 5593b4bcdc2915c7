"""`config.pbtxt`: how Triton runs a model, in protobuf's text format.

Fields are those of `ModelConfig` in
https://github.com/triton-inference-server/common/blob/main/protobuf/model_config.proto
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nightshift.contracts.package import OUTPUT, Signature, Tensor
from nightshift.serving.batching import ServerLimits

Message = Mapping[str, Any]

FEATURES, RAW = "_features", "_raw"  # suffixes of the names of the feature step and the ensemble
WITHOUT_BATCH = {"dims": [1], "reshape": {"shape": []}}  # beside the batch's, Triton's tensors have a dimension


class Word(str):
    """A value of an enumeration, written without quotes."""

    __slots__ = ()


@dataclass(frozen=True)
class TritonSettings:
    """How Triton runs and serves a model.

    Attributes:
        rows: most rows of one call of the graph, and of a request.
        preferred: batch sizes at which a call waits for no more rows; empty: `rows`.
        delay_us: microseconds that a call may wait for more rows.
        queue: most requests that wait for a call; Triton answers more with 503. 0: no limit, and faster: with a limit
            its batcher prepares no batch during a call, and then may sleep for half a second
            (`PriorityQueue::SupportPrefetching` in Triton's core).
        instances: instances of the graph, on each GPU or on the CPU.
        gpus: number of GPUs; 0: the CPU.
        latest: number of newest versions to serve.
        versions: versions to serve instead; empty: the newest.
        cache: whether repeated rows are answered from the server's cache.
    """

    rows: int = ServerLimits.rows
    preferred: Sequence[int] = ()
    delay_us: int = 0
    queue: int = 0
    instances: int = 1
    gpus: int = 0
    latest: int = 1
    versions: Sequence[int] = ()
    cache: bool = False

    def choose_served(self, versions: Sequence[int]) -> set[int]:
        """Return which of the existing versions Triton serves."""
        return set(self.versions) if self.versions else set(sorted(versions)[-self.latest :])


@dataclass(frozen=True)
class TritonModel:
    """The models that Triton has of a package: its graph, the feature step, and the ensemble of both.

    Attributes:
        name: name of the graph.
        signature: inputs and outputs of the graph.
        items: input of the graph -> the request's tensor that it is made of: a row, an image or a text.
        settings: how Triton runs the models.
    """

    name: str
    signature: Signature
    items: Mapping[str, str]
    settings: TritonSettings

    @property
    def features(self) -> str:
        """Name of the feature step."""
        return f"{self.name}{FEATURES}"

    @property
    def raw(self) -> str:
        """Name of the ensemble."""
        return f"{self.name}{RAW}"


def graph(model: TritonModel, labels: str | None = None) -> str:
    """Return the configuration of a package's graph, run by Triton's backend for ONNX Runtime.

    Args:
        model: the package's models.
        labels: file beside the configuration with the classes' names, one a line, also for the ensemble; None: there
            are no classes.
    """
    inputs, settings = model.signature.inputs, model.settings
    return format_message(
        {
            "name": model.name,
            "backend": "onnxruntime",
            "max_batch_size": settings.rows,
            "input": [_tensor(tensor) | {"dims": tensor.shape[1:]} for tensor in inputs],
            "output": [
                _output(tensor, labels if tensor.name == OUTPUT else None) for tensor in model.signature.outputs
            ],
            "version_policy": _policy(settings),
            "dynamic_batching": _batching(settings) | _queueing(settings),
            "instance_group": _instances(settings),
            "model_warmup": [_warmup(inputs, rows) for rows in sorted({1, settings.rows})],
            "response_cache": {"enable": settings.cache},
            # one thread each, as in nightshift.serving: instances that spread over all cores slow each other down
            "parameters": _parameters({} if settings.gpus else {"intra_op_thread_count": "1"}),
        }
    )


def features(model: TritonModel, parameters: Mapping[str, str]) -> str:
    """Return the configuration of the feature step.

    Over an online state it is one process, since the state belongs to one, and waiting requests share a commit.
    """
    settings = model.settings
    return format_message(
        {
            "name": model.features,
            "backend": "python",
            "max_batch_size": settings.rows,
            "input": _item_tensors(model),
            "output": [_tensor(tensor) | {"dims": tensor.shape[1:]} for tensor in model.signature.inputs],
            "dynamic_batching": _queueing(settings),
            "instance_group": {"kind": Word("KIND_CPU"), "count": 1 if parameters else settings.instances},
            "parameters": _parameters(parameters),
        }
    )


def ensemble(name: str, models: Sequence[TritonModel]) -> str:
    """Return the configuration of the feature steps and the graphs of some models as one model."""
    return format_message(
        {
            "name": name,
            "platform": "ensemble",
            "max_batch_size": models[0].settings.rows,
            "input": [tensor for model in models for tensor in _item_tensors(model)],
            "output": [
                _tensor(tensor) | {"dims": tensor.shape[1:] or [1]}
                for model in models
                for tensor in model.signature.outputs
            ],
            "ensemble_scheduling": {"step": [step for model in models for step in _steps(model)]},
        }
    )


def format_message(message: Message, indent: str = "") -> str:
    """Return a message in protobuf's text format; a list is a repeated field."""
    return "".join(
        _format_field(name, entry, indent)
        for name, value in message.items()
        for entry in (value if isinstance(value, list) else [value])
    )


def _format_field(name: str, value: Any, indent: str) -> str:
    if isinstance(value, Mapping):
        return f"{indent}{name} {{\n{format_message(value, f'{indent}  ')}{indent}}}\n"
    # JSON writes numbers, booleans and quoted texts as this format does
    return f"{indent}{name}: {value if isinstance(value, Word) else json.dumps(value, ensure_ascii=False)}\n"


def _tensor(tensor: Tensor) -> dict[str, Any]:
    return {"name": tensor.name, "data_type": Word(f"TYPE_{tensor.datatype}")}


def _output(tensor: Tensor, labels: str | None) -> dict[str, Any]:
    label_file = {"label_filename": labels} if labels else {}
    dims = {"dims": tensor.shape[1:]} if tensor.shape[1:] else WITHOUT_BATCH
    return _tensor(tensor) | dims | label_file


def _item_tensors(model: TritonModel) -> list[dict[str, Any]]:
    return [{"name": item, "data_type": Word("TYPE_STRING"), "dims": [1]} for item in model.items.values()]


def _policy(settings: TritonSettings) -> Message:
    if settings.versions:
        return {"specific": {"versions": list(settings.versions)}}
    return {"latest": {"num_versions": settings.latest}}


def _batching(settings: TritonSettings) -> dict[str, Any]:
    return {"preferred_batch_size": list(settings.preferred), "max_queue_delay_microseconds": settings.delay_us}


def _queueing(settings: TritonSettings) -> dict[str, Any]:
    if not settings.queue:
        return {}
    return {"default_queue_policy": {"timeout_action": Word("REJECT"), "max_queue_size": settings.queue}}


def _instances(settings: TritonSettings) -> Message:
    if not settings.gpus:
        return {"kind": Word("KIND_CPU"), "count": settings.instances}
    return {"kind": Word("KIND_GPU"), "count": settings.instances, "gpus": list(range(settings.gpus))}


def _warmup(inputs: Sequence[Tensor], rows: int) -> Message:
    zeros = [
        {
            "key": tensor.name,
            "value": {"data_type": Word(f"TYPE_{tensor.datatype}"), "dims": tensor.shape[1:], "zero_data": True},
        }
        for tensor in inputs
    ]
    return {"name": f"rows of zeros: {rows}", "batch_size": rows, "inputs": zeros}


def _parameters(values: Mapping[str, str]) -> list[Message]:
    return [{"key": key, "value": {"string_value": value}} for key, value in values.items()]


def _steps(model: TritonModel) -> list[Message]:
    outputs = [tensor.name for tensor in model.signature.outputs]
    inputs = [tensor.name for tensor in model.signature.inputs]
    return [_step(model.features, [*model.items.values()], inputs), _step(model.name, inputs, outputs)]


def _step(name: str, sources: Sequence[str], targets: Sequence[str]) -> Message:
    maps = {
        "input_map": [{"key": source, "value": source} for source in sources],
        "output_map": [{"key": target, "value": target} for target in targets],
    }
    # -1, the newest served version: during a takeover either version may answer
    return {"model_name": name, "model_version": -1, **maps}
