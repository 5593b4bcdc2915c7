"""Turn a compiled pipeline into the tasks of an Airflow DAG: a task a step, or one for a run on Kubeflow.

Airflow's environment needs neither kfp nor torch: compiled YAML is all that is read while a DAG is parsed.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, BaseOperator, DeadlineAlert, SyncCallback
from airflow.sdk.definitions.mappedoperator import MappedOperator

from pipelines import arguments, ir
from pipelines.engines.airflow import operators
from pipelines.engines.airflow.deadlines import QueuedAt
from pipelines.engines.airflow.operators import forms
from pipelines.engines.airflow.operators.alerts import report_failure, report_lateness
from pipelines.engines.airflow.operators.context import AirflowSettings, Rendering

GPU_POOL = "gpu"  # one for all use cases, on purpose: its slots are the cluster's GPUs, whoever takes them

Operators = dict[str, BaseOperator | MappedOperator]  # by the step's name


@contextmanager
def dag(pipeline: str, settings: AirflowSettings, deadline: timedelta, **options: Any) -> Iterator[Operators]:
    """Make a DAG of a pipeline; what its block makes is part of it.

    Args:
        pipeline: name of a shipped one, or a file of compiled YAML.
        settings: where and for which use case it runs.
        deadline: time after a run was first queued at which it is reported as late.
        options: for the DAG: `schedule`, `doc_md` ...

    Yields:
        the tasks by the names of their steps; on Kubeflow a single one, `run`.

    Raises:
        UserError: when the YAML is not to be run.
    """
    compiled = arguments.load_compiled(pipeline, settings.environment)
    rendering = Rendering(compiled, settings)
    graph = DAG(
        dag_id(settings, compiled.name),
        params=forms.start(compiled, settings),
        user_defined_macros=rendering.macros,
        max_active_runs=1,
        deadline=DeadlineAlert(QueuedAt(), deadline, SyncCallback(report_lateness)),
        **common(settings),
        **options,
    )
    with graph:
        yield {"run": operators.make_run_operator(rendering)} if settings.kubeflow else steps(rendering)


def dag_id(settings: AirflowSettings, name: str) -> str:
    """Return the id of a use case's DAG."""
    return "_".join(part for part in (settings.use_case, name) if part).replace("-", "_")


def common(settings: AirflowSettings) -> dict[str, Any]:
    """Return the options of every DAG."""
    return {
        "default_args": {"owner": "nightshift", "on_failure_callback": report_failure},
        "tags": ["nightshift", *([settings.use_case] if settings.use_case else [])],
        "catchup": False,
    }


def steps(rendering: Rendering) -> Operators:
    """Make a task for each step of a pipeline, in the order and with the retries of the compiled YAML.

    The steps of a loop are one mapped task, by the name they have in common.
    """
    ids = {step.name: step.loop or step.name for step in rendering.pipeline.tasks}
    tasks: Operators = {}
    for task_id in dict.fromkeys(ids.values()):
        alike = [step for step in rendering.pipeline.tasks if ids[step.name] == task_id]
        tasks[task_id] = operators.make_step_operator(alike, template_argv(alike[0]), rendering, **_common(alike[0]))
        tasks[task_id].set_upstream([tasks[need] for need in dict.fromkeys(ids[need] for need in alike[0].needs)])
    return tasks


def template_argv(step: ir.PipelineTask) -> list[str]:
    """Return a step's command line with Jinja in the place of values; see `Rendering.fill`."""
    name = f"{step.loop + '-'!r} ~ ti.map_index" if step.loop else repr(step.name)
    return ir.argv(step, lambda kind, key: f"{{{{ fill({name}, {kind!r}, {key!r}) }}}}")


def _common(step: ir.PipelineTask) -> dict[str, Any]:
    return {
        "task_id": step.loop or step.name,
        "retries": step.retry.count,
        "retry_delay": timedelta(seconds=step.retry.seconds),
        "retry_exponential_backoff": step.retry.factor,
        "pool": GPU_POOL if "accelerator" in step.resources else "default_pool",
    }
