"""The task of the step that writes the report, which runs whatever became of the others."""

from typing import Any

from airflow.sdk import TriggerRule
from airflow.sdk.exceptions import AirflowFailException

from pipelines import ir


class ReportedFailureError(AirflowFailException):
    """The report is written, and is one of a run that failed."""


def fail_with_steps(context: Any, _: Any) -> None:
    """Fail after the report when another task of the run has: so does the run, and clearing what failed reports anew.

    Raises:
        ReportedFailureError: naming the tasks.
    """
    run = context["dag_run"]
    states = context["ti"].get_task_states(dag_id=run.dag_id, run_ids=[run.run_id])[run.run_id]
    if failed := sorted(name for name, state in states.items() if state == "failed"):
        raise ReportedFailureError(f"the report is written; what failed is: {', '.join(failed)}")


def report_options(step: ir.PipelineTask) -> dict[str, Any]:
    """Return the options of a step's task that are those of the report's alone."""
    if step.name != "reporting":
        return {}
    return {"trigger_rule": TriggerRule.ALL_DONE, "post_execute": fail_with_steps}
