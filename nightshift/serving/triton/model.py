"""The feature step as Triton's Python backend runs it; it is copied into the repository.

The project and what it imports have to be importable there (`PYTHONPATH`).
https://github.com/triton-inference-server/python_backend
"""

import json
from typing import Any

import triton_python_backend_utils as triton

from nightshift.contracts.package import INPUT
from nightshift.errors import UserError
from nightshift.serving.errors import RefusedError
from nightshift.serving.triton import features


class TritonPythonModel:
    """What the backend calls, under the names that it wants."""

    def initialize(self, args: dict[str, str]) -> None:
        """Load what the configuration names."""
        config = json.loads(args["model_config"])
        given = {key: value["string_value"] for key, value in config["parameters"].items()}
        (asked,) = config["input"]
        self._asked = asked["name"]
        self._features = features.opened(triton.get_model_dir(), config["max_batch_size"], **given)

    def execute(self, requests: list[Any]) -> list[Any]:
        """Answer requests, once what they brought is durable; a refused one does not concern the others."""
        answers = [self._answer(request) for request in requests]
        self._features.commit()
        return answers

    def finalize(self) -> None:
        """Let go of the state."""
        self._features.close()

    def _answer(self, request: Any) -> Any:
        rows = triton.get_input_tensor_by_name(request, self._asked).as_numpy().reshape(-1).tolist()
        try:
            return triton.InferenceResponse([triton.Tensor(INPUT, self._features.matrix(rows))])
        except (RefusedError, UserError) as error:
            refused = triton.TritonError(str(error), triton.TritonError.INVALID_ARG)
            return triton.InferenceResponse([], refused)
