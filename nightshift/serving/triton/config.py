"""`config.pbtxt`: how Triton runs a model, in protobuf's text format.

Fields are those of `ModelConfig` in
https://github.com/triton-inference-server/common/blob/main/protobuf/model_config.proto
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nightshift.contracts.package import Signature, Tensor
from nightshift.serving.batching import Limits

Message = Mapping[str, Any]

FEATURES, RAW = "_features", "_raw"  # how names of the feature step and of the ensemble end
WITHOUT_BATCH = {"dims": [1], "reshape": {"shape": []}}  # beside the batch's, Triton's tensors have a dimension


class Word(str):
    """A name of an enumeration, which stands without quotes."""

    __slots__ = ()


@dataclass(frozen=True)
class Settings:
    """What Triton takes on.

    Attributes:
        rows: of one call of the graph; a request may not have more.
        preferred: sizes of batches for which a call does not wait for more; none: `rows`.
        delay_us: microseconds that a call may wait for more rows.
        queue: requests that may wait for a call; Triton answers one more with 503. 0: any number, and faster: with a
            limit its batcher prepares no batch while a call is made, and then may sleep for half a second
            (`PriorityQueue::SupportPrefetching` in Triton's core).
        instances: of the graph, on each GPU or on the CPU.
        gpus: 0: the CPU.
        latest: how many of the newest versions are served.
        versions: which versions are served instead; none: the newest.
        cache: whether a row that was answered is answered from the server's cache.
    """

    rows: int = Limits.rows
    preferred: Sequence[int] = ()
    delay_us: int = 0
    queue: int = 0
    instances: int = 1
    gpus: int = 0
    latest: int = 1
    versions: Sequence[int] = ()
    cache: bool = False

    def served(self, versions: Sequence[int]) -> set[int]:
        """Return which of the versions that there are Triton serves."""
        return set(self.versions) if self.versions else set(sorted(versions)[-self.latest :])


@dataclass(frozen=True)
class Served:
    """What is served of a package: its graph, the feature step, and the ensemble of both.

    Attributes:
        name: of the graph.
        signature: what the graph takes and gives.
        asked: what requests call a row, an image or a text.
        settings: what Triton takes on.
    """

    name: str
    signature: Signature
    asked: str
    settings: Settings

    @property
    def features(self) -> str:
        """Name of the feature step."""
        return f"{self.name}{FEATURES}"

    @property
    def raw(self) -> str:
        """Name of the ensemble."""
        return f"{self.name}{RAW}"


def graph(served: Served, labels: str | None = None) -> str:
    """Return the configuration of a package's graph, run by Triton's backend for ONNX Runtime.

    Args:
        served: what is served of the package.
        labels: file beside the configuration that names the classes, a line each, for the ensemble too; None: there
            are no classes.
    """
    (given,), made, settings = served.signature.inputs, served.signature.score, served.settings
    named = {"label_filename": labels} if labels else {}
    dims = {"dims": made.shape[1:]} if made.shape[1:] else WITHOUT_BATCH
    return text(
        {
            "name": served.name,
            "backend": "onnxruntime",
            "max_batch_size": settings.rows,
            "input": _tensor(given) | {"dims": given.shape[1:]},
            "output": _tensor(made) | dims | named,
            "version_policy": _policy(settings),
            "dynamic_batching": _batching(settings) | _waiting(settings),
            "instance_group": _instances(settings),
            "model_warmup": [_warmup(given, rows) for rows in sorted({1, settings.rows})],
            "response_cache": {"enable": settings.cache},
            # one thread each, as our own server has it: instances that spread over all cores slow each other down
            "parameters": _parameters({} if settings.gpus else {"intra_op_thread_count": "1"}),
        }
    )


def features(served: Served, parameters: Mapping[str, str]) -> str:
    """Return the configuration of the feature step.

    Over an online state it is one process, since one process has the state, and what waits shares a commit.
    """
    (made,), settings = served.signature.inputs, served.settings
    return text(
        {
            "name": served.features,
            "backend": "python",
            "max_batch_size": settings.rows,
            "input": _asked(served),
            "output": _tensor(made) | {"dims": made.shape[1:]},
            "dynamic_batching": _waiting(settings),
            "instance_group": {"kind": Word("KIND_CPU"), "count": 1 if parameters else settings.instances},
            "parameters": _parameters(parameters),
        }
    )


def ensemble(served: Served) -> str:
    """Return the configuration of the feature step and the graph as one model."""
    (given,), made = served.signature.inputs, served.signature.score
    steps = [_step(served.features, served.asked, given.name), _step(served.name, given.name, made.name)]
    return text(
        {
            "name": served.raw,
            "platform": "ensemble",
            "max_batch_size": served.settings.rows,
            "input": _asked(served),
            "output": _tensor(made) | {"dims": made.shape[1:] or [1]},
            "ensemble_scheduling": {"step": steps},
        }
    )


def text(message: Message, indent: str = "") -> str:
    """Return a message in protobuf's text format; a list is a repeated field."""
    return "".join(
        _field(name, each, indent)
        for name, value in message.items()
        for each in (value if isinstance(value, list) else [value])
    )


def _field(name: str, value: Any, indent: str) -> str:
    if isinstance(value, Mapping):
        return f"{indent}{name} {{\n{text(value, f'{indent}  ')}{indent}}}\n"
    # JSON writes numbers, booleans and quoted texts as this format does
    return f"{indent}{name}: {value if isinstance(value, Word) else json.dumps(value, ensure_ascii=False)}\n"


def _tensor(tensor: Tensor) -> dict[str, Any]:
    return {"name": tensor.name, "data_type": Word(f"TYPE_{tensor.datatype}")}


def _asked(served: Served) -> dict[str, Any]:
    return {"name": served.asked, "data_type": Word("TYPE_STRING"), "dims": [1]}


def _policy(settings: Settings) -> Message:
    if settings.versions:
        return {"specific": {"versions": list(settings.versions)}}
    return {"latest": {"num_versions": settings.latest}}


def _batching(settings: Settings) -> dict[str, Any]:
    return {"preferred_batch_size": list(settings.preferred), "max_queue_delay_microseconds": settings.delay_us}


def _waiting(settings: Settings) -> dict[str, Any]:
    if not settings.queue:
        return {}
    return {"default_queue_policy": {"timeout_action": Word("REJECT"), "max_queue_size": settings.queue}}


def _instances(settings: Settings) -> Message:
    if not settings.gpus:
        return {"kind": Word("KIND_CPU"), "count": settings.instances}
    return {"kind": Word("KIND_GPU"), "count": settings.instances, "gpus": list(range(settings.gpus))}


def _warmup(given: Tensor, rows: int) -> Message:
    tensor = {"data_type": Word(f"TYPE_{given.datatype}"), "dims": given.shape[1:], "zero_data": True}
    return {"name": f"rows of zeros: {rows}", "batch_size": rows, "inputs": {"key": given.name, "value": tensor}}


def _parameters(values: Mapping[str, str]) -> list[Message]:
    return [{"key": key, "value": {"string_value": value}} for key, value in values.items()]


def _step(name: str, given: str, made: str) -> Message:
    # the newest version that is served: while another one takes over, an answer comes from the one or the other
    maps = {"input_map": {"key": given, "value": given}, "output_map": {"key": made, "value": made}}
    return {"model_name": name, "model_version": -1, **maps}
