"""The values of a compiled pipeline's placeholders in one run: parameters, URIs and KFP's executor input."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nightshift import storage
from pipelines import ir


@dataclass(frozen=True)
class Commands:
    """The command lines of a run's steps.

    Attributes:
        root: URI of the run's folder, whose last part is the run's name; a step's artifacts lie in `<root>/<step>/`.
        arguments: the pipeline's parameters.
        pull_metadata: returns a step's metadata where the run's folder is out of sight; empty until it is done.
    """

    root: str
    arguments: dict[str, Any]
    pull_metadata: Callable[[str], dict[str, Any]] | None = None

    @property
    def name(self) -> str:
        """The run's name."""
        return self.root.rsplit("/", 1)[-1]

    def argv(self, task: ir.PipelineTask) -> list[str]:
        """Return a step's command line."""
        return ir.argv(task, lambda kind, name: self.fill(task, kind, name))

    def fill(self, task: ir.PipelineTask, kind: str, name: str) -> str:
        """Return the text that stands for a placeholder of a step; see `ir.argv` for the kinds."""
        match kind:
            case "parameter":
                kfp_type, source = task.parameters[name]
                return ir.text(self._value(source), kfp_type)
            case "input":
                return self.uri(task.artifacts[name][0])
            case "output":
                return self.uri(ir.ArtifactRef(task.name, name))
        return json.dumps(self._executor_input(task))

    def uri(self, artifact: ir.ArtifactRef) -> str:
        """Return where an artifact lies."""
        return storage.join(self.root, artifact.task, artifact.output)

    def metadata(self, artifact: ir.ArtifactRef) -> dict[str, Any]:
        """Return the metadata of an artifact; empty when its step has written none or is not done."""
        if self.pull_metadata:
            return self.pull_metadata(artifact.task)
        path = self._executor_output(artifact.task)
        artifacts = storage.read_json(path)["artifacts"] if storage.exists(path) else {}
        return dict(artifacts.get(artifact.output, {}).get("artifacts", [{}])[0].get("metadata", {}))

    def _value(self, source: ir.Constant | ir.Reference) -> Any:
        if source == ir.Constant(ir.RUN_NAME):
            return self.name
        return source.value if isinstance(source, ir.Constant) else self.arguments[source.name]

    def _executor_output(self, task: str) -> str:
        return storage.join(self.root, task, "executor_output.json")

    def _executor_input(self, task: ir.PipelineTask) -> dict[str, Any]:
        def artifact(key: str, source: ir.ArtifactRef, metadata: dict[str, Any]) -> dict[str, Any]:
            return {"name": key, "uri": self.uri(source), "metadata": metadata}

        inputs = {
            key: {"artifacts": [artifact(key, source, self.metadata(source)) for source in sources]}
            for key, sources in task.artifacts.items()
        }
        outputs = {key: {"artifacts": [artifact(key, ir.ArtifactRef(task.name, key), {})]} for key in task.outputs}
        values = {key: self._value(source) for key, (_, source) in task.parameters.items()}
        return {
            "inputs": {"parameterValues": values, "artifacts": inputs},
            "outputs": {"artifacts": outputs, "outputFile": self._executor_output(task.name)},
        }
