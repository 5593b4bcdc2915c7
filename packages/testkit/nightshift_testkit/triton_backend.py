"""Triton's backend for ONNX Runtime as far as our repositories use it, in Python: for tests, and to compare servers."""

import json
from pathlib import Path

import numpy as np
import onnxruntime
import triton_python_backend_utils as triton


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        (self._input,), (self._output,) = ([tensor["name"] for tensor in config[side]] for side in ("input", "output"))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = int(config["parameters"]["intra_op_thread_count"]["string_value"])
        graph = Path(triton.get_model_dir(), "model.onnx")
        self._session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])

    def execute(self, requests):
        rows = [triton.get_input_tensor_by_name(request, self._input).as_numpy() for request in requests]
        (scores,) = self._session.run([self._output], {self._input: np.concatenate(rows)})
        parts = np.split(scores, np.cumsum([len(part) for part in rows])[:-1])
        return [triton.InferenceResponse([triton.Tensor(self._output, part)]) for part in parts]
