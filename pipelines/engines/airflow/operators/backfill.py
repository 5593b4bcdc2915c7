"""Runs of another DAG for past days, one after the other."""

from collections.abc import Mapping
from datetime import date, timedelta
from typing import Any

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import conf, task
from airflow.sdk.exceptions import AirflowFailException

from nightshift.contracts.state import DeploymentTarget
from nightshift.data.dates import parse_date
from nightshift.runtime.errors import UserError
from pipelines.engines.airflow.operators.context import check_form

POLL_SECONDS = 10  # between two looks at a run


@task
def days(training: str, **context: Any) -> list[dict[str, Any]]:
    """Return, for each of the first days of the form, the run of it: its id, fixed by the day, and its parameters.

    Raises:
        AirflowFailException: when one is no day, the last day is before the first, the form has other fields, or the
            DAG is paused, whose runs would wait forever.
    """
    first, last = _span(context)
    if context["ti"].get_dag(training).is_paused:
        raise AirflowFailException(f"{training} is paused, and its runs would wait; turn it on, then clear this task")
    dates = [str(first + timedelta(days=day)) for day in range(min((last - first).days + 1, _most_days()))]
    shared = _shared_fields(context["params"]) | {"target": DeploymentTarget.RECORD_ONLY.value}
    return [{"trigger_run_id": f"backfill-{day}", "conf": shared | {"date": day}} for day in dates]


@task
def rest(**context: Any) -> list[dict[str, Any]]:
    """Return the backfill of the days after those, if there are any."""
    first, last = _span(context)
    first += timedelta(days=_most_days())
    span = {"first": str(first), "last": str(last)}
    return [{"conf": _shared_fields(context["params"]) | span}] if first <= last else []


def _span(context: Mapping[str, Any]) -> tuple[date, date]:
    try:
        check_form(context)
        first, last = (parse_date(context["params"][name]) for name in ("first", "last"))
    except UserError as error:
        raise AirflowFailException(str(error)) from None
    if last < first:
        raise AirflowFailException(f"last is {last}, before first ({first}); start again with the older day first")
    return first, last


def _most_days() -> int:
    """Return how many tasks Airflow makes of one at most."""
    return int(conf.getint("core", "max_map_length"))


def _shared_fields(form: Mapping[str, Any]) -> dict[str, Any]:
    return {name: form[name] for name in ("data", "config", "device")}


def each_day(backfill: str, training: str) -> None:
    """Make the tasks that run a DAG for the days of the form; a run that is there already is cleared and runs again.

    More days than Airflow makes tasks of one are left to a further run of the backfill.
    """
    runs = TriggerDagRunOperator.partial(
        task_id="run",
        trigger_dag_id=training,
        reset_dag_run=True,
        wait_for_completion=True,
        deferrable=True,
        fail_when_dag_is_paused=True,
        poke_interval=POLL_SECONDS,
        max_active_tis_per_dagrun=1,
        map_index_template="{{ task.conf.date }}",
    ).expand_kwargs(days(training))
    continued = TriggerDagRunOperator.partial(task_id="continue", trigger_dag_id=backfill)
    runs >> continued.expand_kwargs(rest())
