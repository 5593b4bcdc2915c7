"""Compiled KFP YAML (PipelineSpec) as plain values: what the local run and Airflow loop over.

Only the subset that a container step needs is read; anything else is refused with one clear line, since an
engine that quietly ignored it would run another pipeline than Kubeflow does. Needs no kfp.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

from nightshift.runtime.errors import UserError
from pipelines import documents, loops

_PLACEHOLDER = re.compile(
    r"\{\{\$(?:\.inputs\.parameters\['(?P<parameter>[^']+)'\]"
    r"|\.inputs\.artifacts\['(?P<input>[^']+)'\]\.uri|\.outputs\.artifacts\['(?P<output>[^']+)'\]\.uri)?\}\}"
)
RUN_NAME = "{{$.pipeline_job_name}}"  # stands for it as a step's argument; Kubeflow leaves it in a command line


@dataclass(frozen=True)
class Parameter:
    """A pipeline's or a step's parameter: its KFP type and its default, None when it has to be given."""

    type: str
    default: Any = None


@dataclass(frozen=True)
class Constant:
    """A step's argument that is fixed in the pipeline, or `RUN_NAME`."""

    value: Any


@dataclass(frozen=True)
class Reference:
    """A step's argument that is a parameter of the pipeline."""

    name: str


@dataclass(frozen=True)
class ArtifactRef:
    """An output of a step that another step reads."""

    task: str
    output: str


@dataclass(frozen=True)
class Retry:
    """How often a failed step is tried again, and how long to wait before (seconds, growing by `factor`)."""

    count: int = 0
    seconds: float = 0.0
    factor: float = 2.0


@dataclass(frozen=True)
class PipelineTask:
    """One step.

    Attributes:
        name: its key in the graph.
        image: the container image.
        command: words, of which some are placeholders as a whole.
        environment: environment variables.
        parameters: argument name -> (KFP type, where its value comes from).
        artifacts: input name -> the output it is, or those of all steps of a loop.
        outputs: output name -> KFP schema title.
        needs: steps that have to be done before.
        retry: what happens on failure.
        resources: requests, limits and accelerator, as KFP writes them.
        kubernetes: platform options (volumes, secrets, tolerations ...), as KFP writes them.
        cached: whether an unchanged step may be skipped.
        loop: what it and the others of its loop are called; empty outside of one.
    """

    name: str
    image: str
    command: tuple[str, ...]
    environment: dict[str, str]
    parameters: dict[str, tuple[str, Constant | Reference]]
    artifacts: dict[str, tuple[ArtifactRef, ...]]
    outputs: dict[str, str]
    needs: tuple[str, ...]
    retry: Retry
    resources: dict[str, Any]
    kubernetes: dict[str, Any]
    cached: bool
    loop: str


@dataclass(frozen=True)
class Pipeline:
    """A compiled pipeline; its tasks come in an order in which they can run, `documents` are what it was read from."""

    name: str
    parameters: dict[str, Parameter]
    tasks: tuple[PipelineTask, ...]
    documents: list[dict[str, Any]] = field(repr=False)

    @property
    def yaml(self) -> bytes:
        """Return its YAML, as Kubeflow takes it."""
        return documents.dump(self.documents)


def load(path: Path) -> Pipeline:
    """Read a compiled pipeline.

    Raises:
        UserError: when the file is missing, not compiled YAML, or uses what the engines do not run.
    """
    return interpret(documents.read(path))


def interpret(parsed: list[dict[str, Any]]) -> Pipeline:
    """Return a pipeline by its documents.

    Raises:
        UserError: when it uses what the engines do not run.
    """
    return _SpecReader(parsed[0], parsed[1] if len(parsed) > 1 else {}).pipeline(parsed)


def argv(task: PipelineTask, fill: Callable[[str, str], str]) -> list[str]:
    """Return a step's command line.

    Args:
        task: the step.
        fill: gives the text for (kind, name); the kinds are `parameter`, `input` and `output` (URIs) and
            `executor_input` (KFP's JSON).
    """
    return [_fill_word(word, fill) for word in task.command]


def text(value: Any, kfp_type: str) -> str:
    """Render a parameter's value as Kubeflow does: all but a STRING as JSON, whole numbers without a fraction."""
    return str(value) if kfp_type == "STRING" else json.dumps(_whole(value), sort_keys=True)


def _whole(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _fill_word(word: str, fill: Callable[[str, str], str]) -> str:
    match = _PLACEHOLDER.fullmatch(word)
    if not match:
        return word
    kind, name = next(((k, v) for k, v in match.groupdict().items() if v), ("executor_input", ""))
    return fill(kind, name)


class _SpecReader:
    """Walks one PipelineSpec."""

    def __init__(self, spec: dict[str, Any], platform: dict[str, Any]) -> None:
        self.spec = spec
        deployment = platform.get("platforms", {}).get("kubernetes", {}).get("deploymentSpec", {})
        self.kubernetes: dict[str, Any] = deployment.get("executors", {})

    def pipeline(self, parsed: list[dict[str, Any]]) -> Pipeline:
        root = self.spec["root"]
        definitions = root.get("inputDefinitions", {}).get("parameters", {})
        parameters = {name: Parameter(d["parameterType"], d.get("defaultValue")) for name, d in definitions.items()}
        unrolled = loops.unroll(root["dag"]["tasks"], self.spec["components"])
        tasks = {name: self._task(name, value) for name, value in unrolled.items()}
        order = TopologicalSorter({name: task.needs for name, task in tasks.items()}).static_order()
        return Pipeline(self.spec["pipelineInfo"]["name"], parameters, tuple(tasks[name] for name in order), parsed)

    def _task(self, name: str, task: dict[str, Any]) -> PipelineTask:
        component = self.spec["components"][task["componentRef"]["name"]]
        _refuse_graph(name, task, component)
        label = component["executorLabel"]
        executor = self.spec["deploymentSpec"]["executors"][label]
        if "container" not in executor:
            raise _refusal(name, "an importer")
        container, retry = executor["container"], task.get("retryPolicy", {})
        return PipelineTask(
            name=name,
            image=container["image"],
            command=_command(name, [*container.get("command", []), *container.get("args", [])]),
            environment={item["name"]: item["value"] for item in container.get("env", [])},
            parameters=_parameters(name, task, component),
            artifacts=_artifacts(name, task),
            outputs={
                key: value["artifactType"]["schemaTitle"]
                for key, value in component.get("outputDefinitions", {}).get("artifacts", {}).items()
            },
            needs=tuple(task.get("dependentTasks", [])),
            retry=Retry(
                int(retry.get("maxRetryCount", 0)),
                float(retry.get("backoffDuration", "0s").removesuffix("s")),
                float(retry.get("backoffFactor", 2.0)),
            ),
            resources=container.get("resources", {}),
            kubernetes=self.kubernetes.get(label, {}),
            cached=task.get("cachingOptions", {}).get("enableCache", False),
            loop=task.get("loop", ""),
        )


def _refuse_graph(name: str, task: dict[str, Any], component: dict[str, Any]) -> None:
    trigger = task.get("triggerPolicy", {})
    refusals = {
        "a nested pipeline, a condition or a loop": "dag" in component,
        "If / Elif / Else": "condition" in trigger,
        "ExitHandler or ignore_upstream_failure": "strategy" in trigger,
        "ParallelFor": any(key in task for key in ("parameterIterator", "artifactIterator", "iteratorPolicy")),
        "an output parameter (OutputPath)": "parameters" in component.get("outputDefinitions", {}),
    }
    for feature in [feature for feature, used in refusals.items() if used]:
        raise _refusal(name, feature)


def _command(name: str, words: list[Any]) -> tuple[str, ...]:
    for word in words:
        if not isinstance(word, str) or '{"Concat"' in word or '{"IfPresent"' in word:
            raise _refusal(name, "Concat or IfPresent")
        if "{{$" in word and not _PLACEHOLDER.fullmatch(word):
            raise _refusal(name, f"a placeholder the engines do not fill in, or one inside a longer word: {word!r}")
        if not word.startswith("{{$") and re.search(r"\{[{%#]", word):
            raise _refusal(name, f"a Jinja marker in a constant: {word!r}")
    return tuple(words)


def _parameters(
    name: str, task: dict[str, Any], component: dict[str, Any]
) -> dict[str, tuple[str, Constant | Reference]]:
    arguments = task.get("inputs", {}).get("parameters", {})
    definitions = component.get("inputDefinitions", {}).get("parameters", {})
    return {key: (d["parameterType"], _binding(name, key, arguments.get(key), d)) for key, d in definitions.items()}


def _binding(name: str, key: str, argument: dict[str, Any] | None, definition: dict[str, Any]) -> Constant | Reference:
    if argument is None:
        return Constant(definition.get("defaultValue"))
    if "componentInputParameter" in argument:
        return Reference(argument["componentInputParameter"])
    if "runtimeValue" in argument:
        value = argument["runtimeValue"]["constant"]
        if value != RUN_NAME and re.search(r"\{[{%#]", json.dumps(value)):
            raise _refusal(name, f"a placeholder or Jinja marker in the constant of {key!r}")
        return Constant(value)
    raise _refusal(name, f"parameter {key!r} from another step's output (taskOutputParameter)")


def _artifacts(name: str, task: dict[str, Any]) -> dict[str, tuple[ArtifactRef, ...]]:
    artifacts = {}
    for key, argument in task.get("inputs", {}).get("artifacts", {}).items():
        if not argument.keys() & {"taskOutputArtifact", "collected"}:
            raise _refusal(name, f"artifact {key!r} that is not another step's output")
        sources = argument.get("collected") or [argument["taskOutputArtifact"]]
        artifacts[key] = tuple(ArtifactRef(source["producerTask"], source["outputArtifactKey"]) for source in sources)
    return artifacts


def _refusal(name: str, feature: str) -> UserError:
    return UserError(
        f"step {name!r} uses {feature}, which only Kubeflow runs; "
        "see 'The subset of KFP' in docs/concepts/architecture.md"
    )
