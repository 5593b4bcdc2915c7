"""The one loop that all engines run: a step once for each number below a fixed one, `dsl.ParallelFor([*range(n)])`.

Its steps are put in its place, so that nobody else has to know loops. Any other loop stays, and `ir.py` refuses it.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
TASK = {"componentRef", "dependentTasks", "inputs", "parameterIterator", "taskInfo"}


@dataclass(frozen=True)
class Loop:
    """A loop over numbers.

    Attributes:
        task: its node in the graph.
        dag: the graph in it, of one step.
        step: that step's name.
    """

    task: Json
    dag: Json
    step: str

    @property
    def names(self) -> list[str]:
        """What the step is called each time."""
        return [f"{self.step}-{number}" for number in json.loads(self.task["parameterIterator"]["items"]["raw"])]

    def steps(self) -> dict[str, Json]:
        """Return the step once for each number, as if it stood outside."""
        fixed = {"dependentTasks": self.task.get("dependentTasks", []), "loop": self.step}
        step = self.dag["tasks"][self.step]
        return {name: step | fixed | {"inputs": self._inputs(number)} for number, name in enumerate(self.names)}

    def outputs(self, name: str) -> list[Json]:
        """Return what is collected under a name: the same output of each step."""
        (source,) = self.dag["outputs"]["artifacts"][name]["artifactSelectors"]
        return [{"producerTask": step, "outputArtifactKey": source["outputArtifactKey"]} for step in self.names]

    def _inputs(self, number: int) -> Json:
        outside, inside = self.task.get("inputs", {}), self.dag["tasks"][self.step].get("inputs", {})
        item = {self.task["parameterIterator"]["itemInput"]: {"runtimeValue": {"constant": number}}}
        outer = outside | {"parameters": outside.get("parameters", {}) | item}
        keys = {"parameters": "componentInputParameter", "artifacts": "componentInputArtifact"}
        return {kind: _bind(inside.get(kind, {}), key, outer.get(kind, {})) for kind, key in keys.items()}


def unroll(tasks: dict[str, Json], components: dict[str, Json]) -> dict[str, Json]:
    """Return a graph's tasks with the steps of each loop in its place; what collects an output has all of them."""
    loops = {name: loop for name, task in tasks.items() if (loop := _read(task, components))}
    unrolled: dict[str, Json] = {}
    for name, task in tasks.items():
        unrolled |= loops[name].steps() if name in loops else {name: _collect(task, loops)}
    return unrolled


def _read(task: Json, components: dict[str, Json]) -> Loop | None:
    """Return the loop that a task is; None for anything else, another loop among them."""
    dag = components[task["componentRef"]["name"]].get("dag", {})
    if len(dag.get("tasks", {})) != 1 or not set(task) <= TASK or not _is_range(task.get("parameterIterator", {})):
        return None
    (name,) = dag["tasks"]
    return Loop(task, dag, name)


def _bind(sources: Json, key: str, outer: Json) -> Json:
    """Return the sources of a step's inputs as the graph outside of its loop has them."""
    return {name: outer.get(source.get(key), source) for name, source in sources.items()}


def _is_range(iterator: Json) -> bool:
    raw = iterator.get("items", {}).get("raw", "")
    return bool(raw) and raw == json.dumps([*range(raw.count(",") + 1)])


def _collect(task: Json, loops: dict[str, Loop]) -> Json:
    """Return a task that needs, and takes, what stands in the place of loops."""
    inputs = task.get("inputs", {})
    artifacts = {key: _follow(source, loops) for key, source in inputs.get("artifacts", {}).items()}
    return task | {"dependentTasks": [*_needs(task, loops)], "inputs": inputs | {"artifacts": artifacts}}


def _needs(task: Json, loops: dict[str, Loop]) -> Iterator[str]:
    for need in task.get("dependentTasks", []):
        yield from loops[need].names if need in loops else [need]


def _follow(source: Json, loops: dict[str, Loop]) -> Json:
    output = source.get("taskOutputArtifact", {})
    loop = loops.get(output.get("producerTask", ""))
    return {"collected": loop.outputs(output["outputArtifactKey"])} if loop else source
