"""Triton's Python backend with the model in ONNX Runtime: the wheel of the server has none for ONNX."""

import os
import sys

import numpy as np
import triton_python_backend_utils as triton

sys.path.insert(0, os.environ["APPS"])
import session


class TritonPythonModel:
    def initialize(self, arguments):
        self.model = session.load()

    def execute(self, requests):
        rows = [triton.get_input_tensor_by_name(request, "inputs").as_numpy() for request in requests]
        scores = self.model.run(["score"], {"inputs": np.concatenate(rows)})[0]
        ends = np.cumsum([len(each) for each in rows])[:-1]
        return [
            triton.InferenceResponse([triton.Tensor("score", part.reshape(-1, 1))]) for part in np.split(scores, ends)
        ]
