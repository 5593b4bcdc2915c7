"""The feature step as Triton's Python backend runs it; it is copied into the repository.

The project and its dependencies must be importable there (`PYTHONPATH`).
https://github.com/triton-inference-server/python_backend
"""

import json
from typing import Any

import triton_python_backend_utils as triton

from nightshift.http.errors import RefusedError
from nightshift.runtime.errors import UserError
from nightshift.serving.triton import features


class TritonPythonModel:
    """The backend's interface; the class and its methods have the names that it requires."""

    def initialize(self, args: dict[str, str]) -> None:
        """Open the feature step of the configuration."""
        config = json.loads(args["model_config"])
        parameters = {key: value["string_value"] for key, value in config["parameters"].items()}
        self._inputs = [tensor["name"] for tensor in config["input"]]
        self._features = features.open_step(triton.get_model_dir(), config["max_batch_size"], **parameters)

    def execute(self, requests: list[Any]) -> list[Any]:
        """Answer requests once their events are durable; a refused request leaves the others alone."""
        answers = [self._answer(request) for request in requests]
        self._features.commit()
        return answers

    def finalize(self) -> None:
        """Close the state."""
        self._features.close()

    def _answer(self, request: Any) -> Any:
        tensors = {name: triton.get_input_tensor_by_name(request, name).as_numpy() for name in self._inputs}
        rows = {name: values.reshape(-1).tolist() for name, values in tensors.items()}
        try:
            inputs = self._features.transform(rows)
            return triton.InferenceResponse([triton.Tensor(name, values) for name, values in inputs.items()])
        except (RefusedError, UserError) as error:
            refusal = triton.TritonError(str(error), triton.TritonError.INVALID_ARG)
            return triton.InferenceResponse([], refusal)
