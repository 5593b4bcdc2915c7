"""The shipped DAGs, those of another use case, contexts of runs, and small pipelines of shell commands.

The pipelines are compiled by hand, since kfp is not here to do it.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml
from airflow.sdk import DAG

from pipelines import configs

DAGS = Path(__file__).parents[2] / "dags"
SECOND = """from pipelines.engines.airflow.dags import use_case

use_case({config!r}, data={data!r})
"""
Load = Callable[..., dict[str, DAG]]
Shipped = Callable[..., dict[str, DAG]]

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
            "outputDefinitions": {"artifacts": {"output": ARTIFACT}},
        }
        words = ["{{$.inputs.parameters['date']}}", "{{$.outputs.artifacts['output'].uri}}"]
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


def in_a_loop(path: Path, step: str, count: int, after: str) -> Path:
    """Have a step run once for each number, `$2` of its script; the one after it has KFP's JSON of all as `$2`."""
    spec = yaml.safe_load(path.read_text())
    tasks, components = spec["root"]["dag"]["tasks"], spec["components"]
    outside = tasks.pop(step)
    needs = outside.pop("dependentTasks")
    arguments = {"date": {"componentInputParameter": "given"}, "number": {"componentInputParameter": "item"}}
    components[f"comp-{step}"]["inputDefinitions"]["parameters"]["number"] = {"parameterType": "NUMBER_INTEGER"}
    selected = {"artifactSelectors": [{"outputArtifactKey": "output", "producerSubtask": step}]}
    components["comp-loop"] = {
        "dag": {
            "tasks": {step: outside | {"inputs": {"parameters": arguments}}},
            "outputs": {"artifacts": {"all": selected}},
        },
        "inputDefinitions": {"parameters": {"given": {"parameterType": "STRING"}}},
    }
    tasks["loop"] = {
        "componentRef": {"name": "comp-loop"},
        "dependentTasks": needs,
        "inputs": {"parameters": {"given": {"componentInputParameter": "date"}}},
        "parameterIterator": {"itemInput": "item", "items": {"raw": str([*range(count)])}},
    }
    tasks[after]["dependentTasks"] = ["loop"]
    collected = {"taskOutputArtifact": {"producerTask": "loop", "outputArtifactKey": "all"}}
    tasks[after]["inputs"]["artifacts"] = {"all": collected}
    executors = spec["deploymentSpec"]["executors"]
    executors[f"exec-{step}"]["container"]["args"].append("{{$.inputs.parameters['number']}}")
    executors[f"exec-{after}"]["container"]["args"].append("{{$}}")
    path.write_text(yaml.safe_dump(spec))
    return path


def context(dag: DAG, run_id: str = "manual__2026-01-02T03:04:05+00:00", **run: Any) -> dict[str, Any]:
    """What templates see of a DAG run, of which `run` gives fields and `params` the form."""
    params = {name: param.value for name, param in dag.params.items()} | run.pop("params", {})
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    fields = {"run_id": run_id, "run_type": "manual", "partition_key": None, "logical_date": None, "run_after": moment}
    fields |= {"triggering_user_name": None}
    ti = SimpleNamespace(xcom_pull=lambda task_ids: None, get_dag=lambda dag_id: SimpleNamespace(is_paused=False))
    return {"params": params, "dag": dag, "dag_run": SimpleNamespace(**fields | run), "ti": ti}


def use_case(folder: Path, config: str, data: str = "") -> Path:
    """A folder of DAGs of another use case alone."""
    (folder / "dags").mkdir(exist_ok=True)
    (folder / "dags" / f"{Path(config).stem}.py").write_text(SECOND.format(config=config, data=data))
    return folder / "dags"


def changed(folder: Path, **sections: Any) -> str:
    """The shipped config with other sections, as a file."""
    path = folder / "changed.yaml"
    path.write_text(yaml.safe_dump(configs.load("fraud") | sections))
    return str(path)
