"""Small pipelines of shell commands as compiled YAML, which kfp is not here to write."""

from pathlib import Path
from typing import Any

import yaml

ARTIFACT = {"artifactType": {"schemaTitle": "system.Artifact", "schemaVersion": "0.0.1"}}


def compiled(folder: Path, name: str, **scripts: str) -> Path:
    """Write a pipeline of steps in a row; `$0` of a step's script is the date, `$1` where its output lies."""
    tasks, components, executors = {}, {}, {}
    before: list[str] = []
    for step, script in scripts.items():
        tasks[step] = {
            "taskInfo": {"name": step},
            "componentRef": {"name": f"comp-{step}"},
            "dependentTasks": before,
            "inputs": {"parameters": {"date": {"componentInputParameter": "date"}}},
        }
        components[f"comp-{step}"] = {
            "executorLabel": f"exec-{step}",
            "inputDefinitions": {"parameters": {"date": {"parameterType": "STRING"}}},
            "outputDefinitions": {"artifacts": {"made": ARTIFACT}},
        }
        words = ["{{$.inputs.parameters['date']}}", "{{$.outputs.artifacts['made'].uri}}"]
        executors[f"exec-{step}"] = {"container": {"image": "none", "command": ["sh", "-c", script], "args": words}}
        before = [step]
    spec: dict[str, Any] = {
        "pipelineInfo": {"name": name},
        "root": {"dag": {"tasks": tasks}, "inputDefinitions": {"parameters": {"date": {"parameterType": "STRING"}}}},
        "components": components,
        "deploymentSpec": {"executors": executors},
    }
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(spec))
    return path
