"""Triton's backend for ONNX Runtime as far as our repositories use it, in Python: for tests, and to compare servers."""

import json
from pathlib import Path

import numpy as np
import onnxruntime
import triton_python_backend_utils as triton


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        self._inputs, self._outputs = ([tensor["name"] for tensor in config[side]] for side in ("input", "output"))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = int(config["parameters"]["intra_op_thread_count"]["string_value"])
        graph = Path(triton.get_model_dir(), "model.onnx")
        self._session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])

    def execute(self, requests):
        rows = {name: [self._read(request, name) for request in requests] for name in self._inputs}
        ends = np.cumsum([len(part) for part in rows[self._inputs[0]]])[:-1]
        outputs = self._session.run(self._outputs, {name: np.concatenate(parts) for name, parts in rows.items()})
        parts = zip(*(np.split(output, ends) for output in outputs), strict=True)
        return [triton.InferenceResponse(list(map(triton.Tensor, self._outputs, part))) for part in parts]

    def _read(self, request, name):
        return triton.get_input_tensor_by_name(request, name).as_numpy()
