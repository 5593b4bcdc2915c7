"""Which step of which run a process is, by the URIs that its engine has given to the step's artifacts."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from nightshift.runtime.telemetry import PIPELINE

if TYPE_CHECKING:
    from nightshift.runtime.context import StepContext

SHORTEST = 2  # slashes of a URI: a run, a step and an artifact
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True)
class RunIdentity:
    """A run of a pipeline.

    Attributes:
        use_case: name of the use case; empty for a pipeline of none.
        pipeline: name of the pipeline.
        root: URI below which the run's artifacts lie.
    """

    use_case: str
    pipeline: str
    root: str

    @property
    def job_name(self) -> str:
        """What the run is one of: `fraud.training`."""
        return ".".join(filter(None, (self.use_case, self.pipeline)))

    @property
    def name(self) -> str:
        """The run's name; on Kubeflow its id."""
        return self.root.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class StepIdentity:
    """A step of a run.

    Attributes:
        run: the run.
        task: name of the step in the pipeline, such as `features` or `features-shard-1`.
    """

    run: RunIdentity
    task: str

    @property
    def job_name(self) -> str:
        """What the step's tries are of: `fraud.training.features`."""
        return f"{self.run.job_name}.{self.task}"

    @classmethod
    def from_context(cls, context: "StepContext", variables: Mapping[str, str] = os.environ) -> Self | None:
        """Return the identity of a step; None for what is no step of a run, such as a server."""
        outputs = list_artifacts(context.args.executor_input, "outputs")
        uri = next((uri for uris in outputs.values() for uri in uris), "")
        if uri.count("/") < SHORTEST:
            return None
        root, task = split_uri(uri)[:2]
        return cls(RunIdentity(context.use_case, variables.get(PIPELINE, ""), root), task)


def split_uri(uri: str) -> tuple[str, str, str]:
    """Return the run's root, the step and the name of an artifact's URI.

    It is `<root>/<step>/<artifact>`; Kubeflow puts a UUID of each try between the last two.
    """
    folder, _, name = uri.rpartition("/")
    if UUID.fullmatch(folder.rpartition("/")[2]):
        folder = folder.rpartition("/")[0]
    root, _, task = folder.rpartition("/")
    return root, task, name


def list_artifacts(executor_input: Mapping[str, Any], kind: str) -> dict[str, list[str]]:
    """Return name -> URIs of a step's `inputs` or `outputs`."""
    artifacts = executor_input.get(kind, {}).get("artifacts", {})
    uris = {name: [artifact.get("uri", "") for artifact in value["artifacts"]] for name, value in artifacts.items()}
    return {name: [uri for uri in values if uri] for name, values in uris.items()}
