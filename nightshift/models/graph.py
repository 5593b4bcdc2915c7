"""Runs a model's graph with ONNX Runtime."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from nightshift.contracts.package import EMBEDDING, GREEDY, OUTPUT
from nightshift.models.tensors import Array, Tensors, by_name
from nightshift.models.weights import LargeGraph
from nightshift.runtime.errors import UserError

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
PROVIDERS = {"cpu": CPU, "cuda": CUDA}  # by the name of the device
# TF32 keeps ten bits of a factor, and a release compares scores to 0.0001; batches have many sizes, and the exhaustive
# search is made anew for each
OPTIONS = {CUDA: {"use_tf32": "0", "cudnn_conv_algo_search": "HEURISTIC"}}


# where ONNX Runtime looks for weights that the package has no file for: it finds none, of whatever path
NOWHERE = ("session.model_external_initializers_file_folder_path", os.devnull)
STRAY = "External data path"  # begins what it says of them


class Graph:
    """An ONNX graph, one or more inputs (n, ...) -> `score` float32 (n,) or (n, classes), run by ONNX Runtime.

    What it scores is an array an input, by name; of the graph that has one, `inputs`, the array alone will do.

    Args:
        content: the graph.
        threads: of the CPU, in a call.
        provider: what runs it; the CPU runs the operations that it does not have.
        onnxruntime: the library; None: the one that is installed.

    Raises:
        UserError: when what is to run it cannot, or weights lie elsewhere than in its files. There is no fallback.
    """

    def __init__(self, content: bytes, threads: int = 1, provider: str = CPU, onnxruntime: Any = None) -> None:
        onnxruntime = onnxruntime or runtime()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        _check(provider, onnxruntime.get_available_providers())
        if provider == CUDA:
            onnxruntime.preload_dlls()  # CUDA's libraries in wheels, which the loader does not know
        options.add_session_config_entry(*NOWHERE)
        self._weights = _add_weights(content, options, onnxruntime) if isinstance(content, LargeGraph) else []
        try:
            self._session = onnxruntime.InferenceSession(
                content, options, providers=[(provider, OPTIONS.get(provider, {}))]
            )
        except Exception as error:  # the class depends on the mistake
            if STRAY not in str(error):
                raise
            raise UserError(f"weights of the graph lie outside the package's files ({error}); train again") from None
        _check(provider, self._session.get_providers()[:1])  # what does not load is replaced by the CPU
        self._session.disable_fallback()  # nor does a call that fails move the session to the CPU

    def score(self, inputs: Array | Tensors) -> npt.NDArray[np.float32]:
        """Return the probability of the positive class of each row, (n,), or of each class, (n, classes); float32."""
        return self._run(OUTPUT, inputs)

    def embedding(self, inputs: Array | Tensors) -> npt.NDArray[np.float32]:
        """Return what a network's last layer takes of each row, float32 (n, width)."""
        return self._run(EMBEDDING, inputs)

    def find_greedy(self, inputs: Array | Tensors) -> npt.NDArray[np.float32]:
        """Return of a language model 1 for each token that is its likeliest one, else 0, float32 (n, length)."""
        return self._run(GREEDY, inputs)

    def run(self, outputs: Sequence[str], inputs: Array | Tensors) -> Tensors:
        """Return some outputs of the graph by name, float32 (n, ...)."""
        values = self._session.run([*outputs], by_name(inputs))
        return {name: np.asarray(array, dtype=np.float32) for name, array in zip(outputs, values, strict=True)}

    def _run(self, output: str, inputs: Array | Tensors) -> npt.NDArray[np.float32]:
        return self.run([output], inputs)[output]


def _add_weights(graph: LargeGraph, options: Any, onnxruntime: Any) -> list[Any]:
    """Let a session use the weights where they are in memory; return what must outlive it."""
    weights = {name: tensor for file in graph.files for name, tensor in file.tensors.items()}
    values = [onnxruntime.OrtValue.ortvalue_from_numpy(tensor) for tensor in weights.values()]
    options.add_external_initializers(list(weights), values)
    return values


def _check(provider: str, there: Sequence[str]) -> None:
    if provider not in there:
        raise UserError(
            f"ONNX Runtime has no working {provider} here, only {', '.join(there)}; use the image serving-gpu on a "
            "machine with an NVIDIA GPU, or --device cpu"
        )


def runtime() -> Any:
    """Return ONNX Runtime."""
    # its wheels report their use to Microsoft unless this is there when they are imported
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime

    return onnxruntime
