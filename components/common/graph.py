"""Runs a model's graph with ONNX Runtime."""

import os
from typing import Any

import numpy as np
import numpy.typing as npt

from components.common.contracts.package import EMBEDDING, INPUT, OUTPUT

CPU = "CPUExecutionProvider"


class Graph:
    """An ONNX graph, `inputs` (n, ...) -> `score` float32 (n,) or (n, classes), run by ONNX Runtime."""

    def __init__(self, content: bytes, threads: int = 1, provider: str = CPU) -> None:
        onnxruntime = runtime()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(content, options, providers=[provider])

    def score(self, inputs: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Return the probability of the positive class of each row, (n,), or of each class, (n, classes); float32."""
        return self._given(OUTPUT, inputs)

    def embedding(self, inputs: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Return what a network's last layer takes of each row, float32 (n, width)."""
        return self._given(EMBEDDING, inputs)

    def _given(self, output: str, inputs: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        (found,) = self._session.run([output], {INPUT: inputs})
        return np.asarray(found, dtype=np.float32)


def runtime() -> Any:
    """Return ONNX Runtime."""
    # its wheels report their use to Microsoft unless this is there when they are imported
    os.environ["ORT_DISABLE_TELEMETRY"] = "1"
    import onnxruntime

    return onnxruntime
