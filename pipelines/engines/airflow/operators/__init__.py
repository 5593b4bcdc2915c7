"""What the DAGs' tasks do: run a step as a process or in a pod, run a pipeline on Kubeflow, announce assets.

An operator is imported where it is chosen: the Kubernetes provider takes half a second, each time a DAG is parsed.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow.sdk import BaseOperator
    from airflow.sdk.definitions.mappedoperator import MappedOperator

    from pipelines import ir
    from pipelines.engines.airflow.operators.context import Rendering


def make_step_operator(
    steps: "Sequence[ir.PipelineTask]", argv: list[str], rendering: "Rendering", **options: Any
) -> "BaseOperator | MappedOperator":
    """Return the task of a step: a process here, a pod on a cluster.

    Args:
        steps: the step, or all of a loop, which are one mapped task.
        argv: the command line, with Jinja in the place of values.
        rendering: of the pipeline.
        options: those of any task.
    """
    from pipelines.engines.airflow.operators.reporting import report_options

    kind: Any
    if rendering.settings.is_cluster:
        from pipelines.engines.airflow.operators.kubernetes import PodOperator, place_pod

        kind, own = PodOperator, {"cmds": argv, **place_pod(steps[0], rendering)}
    else:
        from pipelines.engines.airflow.operators.process import StepOperator

        kind, own = StepOperator, {"argv": argv, "steps": steps}
    options |= {"rendering": rendering, **own, **report_options(steps[0])}
    return kind.partial(**options).expand(number=[*range(len(steps))]) if steps[0].loop else kind(**options)


def make_run_operator(rendering: "Rendering") -> "BaseOperator":
    """Return the one task that runs a whole pipeline on Kubeflow."""
    from pipelines.engines.airflow.operators.kubeflow import KubeflowRunOperator

    return KubeflowRunOperator(task_id="run", rendering=rendering)
