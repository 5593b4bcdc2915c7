"""What the DAGs' tasks do: run a step as a process or in a pod, run a pipeline on Kubeflow, announce assets.

An operator is imported where it is chosen: the Kubernetes provider takes half a second, each time a DAG is parsed.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator

    from pipelines import ir
    from pipelines.engines.airflow.operators.context import Rendering


def make_step_operator(
    step: "ir.PipelineTask", argv: list[str], rendering: "Rendering", **options: Any
) -> "BaseOperator":
    """Return the task of a step: a process here, a pod on a cluster; `options` are those of any task."""
    if rendering.settings.is_cluster:
        from pipelines.engines.airflow.operators.kubernetes import pod

        return pod(step, argv, rendering, **options)
    from pipelines.engines.airflow.operators.process import StepOperator

    return StepOperator(step=step, argv=argv, rendering=rendering, **options)


def make_run_operator(rendering: "Rendering") -> "BaseOperator":
    """Return the one task that runs a whole pipeline on Kubeflow."""
    from pipelines.engines.airflow.operators.kubeflow import KubeflowRunOperator

    return KubeflowRunOperator(task_id="run", rendering=rendering)
