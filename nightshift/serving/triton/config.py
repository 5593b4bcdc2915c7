"""`config.pbtxt`: how Triton runs a model, in protobuf's text format.

Fields are those of `ModelConfig` in
https://github.com/triton-inference-server/common/blob/main/protobuf/model_config.proto
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nightshift.contracts.package import Signature, Tensor
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
        item: name of the request's tensor: a row, an image or a text.
        settings: how Triton runs the models.
    """

    name: str
    signature: Signature
    item: str
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
    (tensor,), score, settings = model.signature.inputs, model.signature.score, model.settings
    label_file = {"label_filename": labels} if labels else {}
    dims = {"dims": score.shape[1:]} if score.shape[1:] else WITHOUT_BATCH
    return format_message(
        {
            "name": model.name,
            "backend": "onnxruntime",
            "max_batch_size": settings.rows,
            "input": _tensor(tensor) | {"dims": tensor.shape[1:]},
            "output": _tensor(score) | dims | label_file,
            "version_policy": _policy(settings),
            "dynamic_batching": _batching(settings) | _queueing(settings),
            "instance_group": _instances(settings),
            "model_warmup": [_warmup(tensor, rows) for rows in sorted({1, settings.rows})],
            "response_cache": {"enable": settings.cache},
            # one thread each, as in nightshift.serving: instances that spread over all cores slow each other down
            "parameters": _parameters({} if settings.gpus else {"intra_op_thread_count": "1"}),
        }
    )


def features(model: TritonModel, parameters: Mapping[str, str]) -> str:
    """Return the configuration of the feature step.

    Over an online state it is one process, since the state belongs to one, and waiting requests share a commit.
    """
    (tensor,), settings = model.signature.inputs, model.settings
    return format_message(
        {
            "name": model.features,
            "backend": "python",
            "max_batch_size": settings.rows,
            "input": _item_tensor(model),
            "output": _tensor(tensor) | {"dims": tensor.shape[1:]},
            "dynamic_batching": _queueing(settings),
            "instance_group": {"kind": Word("KIND_CPU"), "count": 1 if parameters else settings.instances},
            "parameters": _parameters(parameters),
        }
    )


def ensemble(model: TritonModel) -> str:
    """Return the configuration of the feature step and the graph as one model."""
    (tensor,), score = model.signature.inputs, model.signature.score
    steps = [_step(model.features, model.item, tensor.name), _step(model.name, tensor.name, score.name)]
    return format_message(
        {
            "name": model.raw,
            "platform": "ensemble",
            "max_batch_size": model.settings.rows,
            "input": _item_tensor(model),
            "output": _tensor(score) | {"dims": score.shape[1:] or [1]},
            "ensemble_scheduling": {"step": steps},
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


def _item_tensor(model: TritonModel) -> dict[str, Any]:
    return {"name": model.item, "data_type": Word("TYPE_STRING"), "dims": [1]}


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


def _warmup(tensor: Tensor, rows: int) -> Message:
    zeros = {"data_type": Word(f"TYPE_{tensor.datatype}"), "dims": tensor.shape[1:], "zero_data": True}
    return {"name": f"rows of zeros: {rows}", "batch_size": rows, "inputs": {"key": tensor.name, "value": zeros}}


def _parameters(values: Mapping[str, str]) -> list[Message]:
    return [{"key": key, "value": {"string_value": value}} for key, value in values.items()]


def _step(name: str, source: str, target: str) -> Message:
    # -1, the newest served version: during a takeover either version may answer
    maps = {"input_map": {"key": source, "value": source}, "output_map": {"key": target, "value": target}}
    return {"model_name": name, "model_version": -1, **maps}
