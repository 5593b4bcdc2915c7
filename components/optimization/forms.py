"""Builds variants of an ONNX graph with ONNX Runtime's own tools, from bytes to bytes."""

import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nightshift.models.graph import CPU, Graph, runtime
from nightshift.models.tensors import Tensors, split_rows
from nightshift.models.weights import LargeGraph

# 7-bit weights: CPUs without VNNI add pairs of 8-bit products in 16 bits, which overflows
SAFE = {"reduce_range": True}
# a scale for each output: those of a convolution, whose weights hold the statistics of batches, differ in size by far
FINE = {"per_channel": True}
FUSED = "graph"  # the form whose weights are as they were
CALIBRATION_BATCH = 16  # calibration rows at once: all of their activations are in memory
ACCELERATED = {"cuda": "CUDAExecutionProvider", "tensorrt": "TensorrtExecutionProvider"}


@dataclass(frozen=True)
class Form:
    """A variant of a graph, or the reason why there is none.

    Attributes:
        name: name of the method that builds it.
        graph: session that runs it; None if it could not be built.
        content: its bytes.
        provider: execution provider.
        missing: reason why it could not be built, a sentence.
    """

    name: str
    graph: Graph | None
    content: bytes = b""
    provider: str = CPU
    missing: str = ""


def make_forms(content: bytes, sample: Tensors) -> Iterator[Form]:
    """Yield all variants of a graph.

    Args:
        content: the graph.
        sample: calibration inputs, n rows.
    """
    for name in MAKERS:
        yield make_form(name, content, sample)
    here = runtime().get_available_providers()
    for name, provider in ACCELERATED.items():
        if provider in here:
            yield _try_form(name, lambda: content, provider)
        else:
            yield Form(name, None, provider=provider, missing=f"ONNX Runtime has no {provider} here.")


def make_form(name: str, content: bytes, sample: Tensors) -> Form:
    """Return a variant with a session: one of `MAKERS`; for the arguments see `make_forms`."""
    if isinstance(content, LargeGraph):  # ONNX Runtime's tools write one file, which cannot hold it
        return Form(name, None, missing="The graph's weights are in separate files, which cannot be converted.")
    return _try_form(name, lambda: MAKERS[name](content, sample))


def _try_form(name: str, make: Callable[[], bytes], provider: str = CPU) -> Form:
    try:
        content = make()
        return Form(name, Graph(content, provider=provider), content, provider)
    except Exception as error:  # the tools do not know every operation; what fails is left out, with the reason
        return Form(
            name, None, provider=provider, missing=f"It could not be made: {' '.join(str(error).split())[:200]}"
        )


def optimize_graph(content: bytes) -> bytes:
    """Return the graph with constants folded and operations fused, as any CPU can run it."""
    onnxruntime = runtime()
    options = onnxruntime.SessionOptions()
    # optimizations beyond this level depend on the machine
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED

    def write(path: str) -> None:
        options.optimized_model_filepath = path
        onnxruntime.InferenceSession(content, options, providers=[CPU])

    return _write_and_read(write)


def int8_dynamic(content: bytes) -> bytes:
    """Return the graph with INT8 weights, and activations whose scale is measured at each call.

    Raises:
        ValueError: when it has nothing to quantize.
    """
    from onnxruntime import quantization

    model, extra = _parse(content), {"DefaultTensorType": 1}  # float, where the graph does not say
    return _quantize(lambda path: quantization.quantize_dynamic(model, path, **SAFE, extra_options=extra))


def int8_static(content: bytes, sample: Tensors) -> bytes:
    """Return the graph with INT8 weights and activations, whose scales come from some rows.

    Raises:
        ValueError: when it has nothing to quantize.
    """
    from onnxruntime import quantization

    model = _parse(content)
    batches = split_rows(sample, CALIBRATION_BATCH)

    class CalibrationReader(quantization.CalibrationDataReader):  # type: ignore[misc]  # it ships no annotations
        def get_next(self) -> Any:
            return next(batches, None)

    # convolutions of signed activations are no faster than float32
    unsigned = quantization.QuantType.QUInt8
    return _quantize(
        lambda path: quantization.quantize_static(
            model, path, CalibrationReader(), activation_type=unsigned, **SAFE, **FINE
        )
    )


def _quantize(write: Callable[[str], object]) -> bytes:
    # it recommends a step that the graphs here have no use for, and tells of biases that have one scale
    logging.getLogger().addFilter(_is_advice)
    try:
        quantized = _write_and_read(write)
    finally:
        logging.getLogger().removeFilter(_is_advice)
    if not any("Quantize" in node.op_type for node in _parse(quantized).graph.node):
        raise ValueError("it has no operation that INT8 could replace")
    return quantized


def _is_advice(record: logging.LogRecord) -> bool:
    message, starts = record.getMessage(), ("Quantization parameters for", "Axis ")
    return "pre-processing before quantization" not in message and not message.startswith(starts)


def _write_and_read(write: Callable[[str], object]) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "graph.onnx")
        write(path)
        return Path(path).read_bytes()


def _parse(content: bytes) -> Any:
    import onnx

    model = onnx.load_from_string(content)
    del model.graph.value_info[:]  # shapes that exporters note there may contradict those after a change
    return model


# `optimization.form` in the config -> what makes it of a graph and a sample of inputs
MAKERS: dict[str, Callable[[bytes, Tensors], bytes]] = {
    FUSED: lambda content, _: optimize_graph(content),
    "int8 dynamic": lambda content, _: int8_dynamic(content),
    "int8 static": int8_static,
}
