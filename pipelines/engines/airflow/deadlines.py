"""What a run's deadline counts from: a plugin of Airflow, which every part of it finds by the package's entry point."""

from datetime import datetime
from typing import TYPE_CHECKING, ClassVar

from airflow.plugins_manager import AirflowPlugin
from airflow.sdk.definitions.deadline import BaseDeadlineReference

if TYPE_CHECKING:
    from sqlalchemy.orm import Session


class QueuedAt(BaseDeadlineReference):
    """The time at which a run was first queued.

    With Airflow's own reference of this kind, a failed run that is not late yet can neither be cleared nor backfilled
    again (apache/airflow#70368).
    """

    required_kwargs: ClassVar[set[str]] = {"dag_id", "run_id"}

    def _evaluate_with(self, *, session: "Session", dag_id: str, run_id: str) -> datetime | None:
        # the models belong to the scheduler and the API server; where a DAG is only parsed, they are not wanted
        from airflow.models import DagRun
        from sqlalchemy import select

        return session.scalar(select(DagRun.queued_at).where(DagRun.dag_id == dag_id, DagRun.run_id == run_id))


class Plugin(AirflowPlugin):
    """Makes the reference known to the scheduler and the API server."""

    name = "nightshift"
    deadline_references: ClassVar[list[type[BaseDeadlineReference]]] = [QueuedAt]
