"""What Kubeflow's driver makes of a pipeline: its tasks, and what each of them is given and is to leave behind."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Any

Json = dict[str, Any]
PARAMETER = re.compile(r"\{\{\$\.inputs\.parameters\['([^']+)'\]\}\}")
TASK = {"cachingOptions", "componentRef", "dependentTasks", "inputs", "retryPolicy", "taskInfo"}
LOOP = {"componentRef", "dependentTasks", "inputs", "parameterIterator", "taskInfo"}
COMPONENT = {"executorLabel", "inputDefinitions", "outputDefinitions"}


@dataclass(frozen=True)
class TaskNode:
    """A node of the graph: how it is placed in it, what it takes and makes, and its container."""

    name: str
    node: Json
    component: Json
    container: Json
    platform: Json

    @property
    def needs(self) -> list[str]:
        return list(self.node.get("dependentTasks", []))


@dataclass(frozen=True)
class RunFacts:
    """What is the same for all tasks of a run; `root` is the URI below which their artifacts lie."""

    pipeline: str
    run_id: str
    name: str
    parameters: Json
    root: str

    @property
    def known(self) -> dict[str, str]:
        """What a constant stands for that is such a placeholder as a whole; nowhere else does it stand for anything."""
        return {"{{$.pipeline_job_name}}": self.name, "{{$.pipeline_job_uuid}}": self.run_id}


def tasks(whole: Json) -> dict[str, TaskNode]:
    """Read the graph of a pipeline, as the API holds it."""
    spec = whole.get("pipeline_spec", whole)
    platform = whole.get("platform_spec", {}).get("platforms", {}).get("kubernetes", {})
    options = platform.get("deploymentSpec", {}).get("executors", {})
    by_name = {}
    for name, node in _nodes(spec).items():
        component = spec["components"][node["componentRef"]["name"]]
        assert set(node) <= TASK and set(component) <= COMPONENT, (name, set(node), set(component))
        label = component["executorLabel"]
        container = spec["deploymentSpec"]["executors"][label]["container"]
        by_name[name] = TaskNode(name, node, component, container, options.get(label, {}))
    return by_name


def _nodes(spec: Json) -> dict[str, Json]:
    """The nodes of the graph, those in a loop over fixed values once for each, as Kubeflow's drivers make them."""
    nodes: dict[str, Json] = {}
    tasks_of: dict[str, list[str]] = {}
    collected: dict[tuple[str, str], list[Json]] = {}
    for name, node in spec["root"]["dag"]["tasks"].items():
        dag = spec["components"][node["componentRef"]["name"]].get("dag")
        if not dag:
            nodes[name] = node
            continue
        iterations = _iterations(name, node, dag)
        tasks_of[name] = list(iterations)
        nodes |= iterations
        for output, selected in dag.get("outputs", {}).get("artifacts", {}).items():
            (source,) = selected["artifactSelectors"]
            key = source["outputArtifactKey"]
            collected[name, output] = [{"producerTask": task, "outputArtifactKey": key} for task in iterations]
    return {name: _outside(node, tasks_of, collected) for name, node in nodes.items()}


def _iterations(name: str, node: Json, dag: Json) -> dict[str, Json]:
    assert set(node) <= LOOP, (name, set(node))
    ((inner, step),) = dag["tasks"].items()
    iterator, outer = node["parameterIterator"], node["inputs"]
    iterations = {}
    for number, value in enumerate(json.loads(iterator["items"]["raw"])):
        parameters = outer["parameters"] | {iterator["itemInput"]: {"runtimeValue": {"constant": value}}}
        inputs = {
            "parameters": {
                key: parameters[source["componentInputParameter"]] if "componentInputParameter" in source else source
                for key, source in step["inputs"]["parameters"].items()
            },
            "artifacts": {
                key: outer["artifacts"][source["componentInputArtifact"]]
                for key, source in step["inputs"]["artifacts"].items()
            },
        }
        iterations[f"{inner}-{number}"] = step | {"inputs": inputs, "dependentTasks": node["dependentTasks"]}
    return iterations


def _outside(node: Json, tasks_of: dict[str, list[str]], collected: dict[tuple[str, str], list[Json]]) -> Json:
    """A node with what stands for loops among those it needs, and among its inputs."""
    needs = [task for need in node.get("dependentTasks", []) for task in tasks_of.get(need, [need])]
    inputs, artifacts = node.get("inputs", {}), {}
    for key, source in inputs.get("artifacts", {}).items():
        output = source["taskOutputArtifact"]
        many = collected.get((output["producerTask"], output["outputArtifactKey"]))
        artifacts[key] = {"collected": many} if many else source
    return node | {"dependentTasks": needs, "inputs": inputs | {"artifacts": artifacts}}


def parameters(whole: Json, overrides: Json) -> Json:
    """The parameters of a run, with the pipeline's defaults."""
    declared = whole.get("pipeline_spec", whole)["root"].get("inputDefinitions", {}).get("parameters", {})
    defaults = {name: parameter["defaultValue"] for name, parameter in declared.items() if "defaultValue" in parameter}
    return defaults | overrides


def executor_input(task: TaskNode, facts: RunFacts, before: Mapping[str, Json], salt: str) -> Json:
    """What a task is given (`artifacts` holds the artifacts of those before it), and what it is to leave behind."""
    inputs = task.node.get("inputs", {})
    values = {name: _value(source, facts) for name, source in inputs.get("parameters", {}).items()}
    artifacts = {name: _artifacts(source, before) for name, source in inputs.get("artifacts", {}).items()}
    return {"inputs": {"parameterValues": values, "artifacts": artifacts}, "outputs": _outputs(task, facts, salt)}


def _artifacts(source: Json, before: Mapping[str, Json]) -> Json:
    sources = source.get("collected") or [source["taskOutputArtifact"]]
    entries = [before[output["producerTask"]][output["outputArtifactKey"]] for output in sources]
    return {"artifacts": [artifact for entry in entries for artifact in entry["artifacts"]]}


def walked(whole: Json, facts: RunFacts) -> Iterator[tuple[TaskNode, Json]]:
    """Yield each task with what it is given, as if those before it had left everything in its place."""
    by_name, produced = tasks(whole), {}
    for name in TopologicalSorter({name: task.needs for name, task in by_name.items()}).static_order():
        task_input = executor_input(by_name[name], facts, produced, "salt")
        produced[name] = task_input["outputs"]["artifacts"]
        yield by_name[name], task_input


def _value(source: Json, facts: RunFacts) -> Any:
    if "componentInputParameter" in source:
        return facts.parameters[source["componentInputParameter"]]
    value = source["runtimeValue"]["constant"]
    return facts.known.get(value, value) if isinstance(value, str) else value


def _outputs(task: TaskNode, facts: RunFacts, salt: str) -> Json:
    """The places of a task's artifacts, to which Kubeflow adds the lines that it prints."""
    folder = f"{facts.root}/{facts.pipeline}/{facts.run_id}/{task.name}/{salt}"
    declared = task.component.get("outputDefinitions", {})
    assert "parameters" not in declared, task.name
    kinds = {name: artifact["artifactType"] for name, artifact in declared.get("artifacts", {}).items()}
    kinds["executor-logs"] = {"schemaTitle": "system.Artifact"}
    artifacts = {
        name: {"artifacts": [{"name": name, "uri": f"{folder}/{name}", "type": kind}]} for name, kind in kinds.items()
    }
    scheme, _, path = folder.partition("://")
    # its launcher has a folder for each kind of store, steps know no minio
    assert scheme in ("s3", "gs"), folder
    local = f"/{'gcs' if scheme == 'gs' else scheme}/{path}"
    return {"artifacts": artifacts, "outputFile": f"{local}/output_metadata.json"}


def command(task: TaskNode, executor_input: Json) -> list[str]:
    """A task's command line with its parameters; its launcher fills in the rest."""
    values = executor_input["inputs"]["parameterValues"]
    words = [*task.container.get("command", []), *task.container.get("args", [])]
    return [PARAMETER.sub(lambda match: text(values[match[1]]), word) for word in words]


def text(value: Any) -> str:
    """A value as Go writes it: JSON but for texts, keys in order, whole numbers without a fraction."""
    if isinstance(value, str):
        return value
    written = json.dumps(_whole(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return "".join(f"\\u{ord(letter):04x}" if letter in "<>&" else letter for letter in written)


def _whole(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
