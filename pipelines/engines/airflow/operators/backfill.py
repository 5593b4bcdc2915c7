"""Runs of another DAG for past days, one after the other."""

from datetime import date, timedelta
from typing import Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import task
from airflow.sdk.exceptions import AirflowFailException

from nightshift.contracts.state import DeploymentTarget
from nightshift.data.dates import parse_date
from nightshift.runtime.errors import UserError

POLL_SECONDS = 10  # between two looks at a run


@task
def days(params: Any = None) -> list[dict[str, Any]]:
    """Return, for each day of the form, the run of it: its id, fixed by the day, and its parameters.

    Raises:
        AirflowFailException: when one is no day, or the last day is before the first.
    """
    first, last = _span(params)
    if last < first:
        raise AirflowFailException(f"last is {last}, before first ({first}); start again with the older day first")
    shared = {name: params[name] for name in ("data", "config", "device")} | {
        "target": DeploymentTarget.RECORD_ONLY.value
    }
    dates = [str(first + timedelta(days=day)) for day in range((last - first).days + 1)]
    return [{"trigger_run_id": f"backfill-{day}", "conf": shared | {"date": day}} for day in dates]


def _span(params: Any) -> tuple[date, date]:
    try:
        return parse_date(params["first"]), parse_date(params["last"])
    except UserError as error:
        raise AirflowFailException(str(error)) from None


def each_day(dag_id: str) -> None:
    """Make the tasks that run a DAG for the days of the form; a run that is there already is cleared and runs again."""
    runs = TriggerDagRunOperator.partial(
        task_id="run",
        trigger_dag_id=dag_id,
        reset_dag_run=True,
        wait_for_completion=True,
        deferrable=True,
        poke_interval=POLL_SECONDS,
        max_active_tis_per_dagrun=1,
        map_index_template="{{ task.conf.date }}",
    )
    runs.expand_kwargs(days())
