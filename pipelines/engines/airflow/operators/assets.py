"""What a run announces to other DAGs of its use case: a day's events are there, a model is wanted, one is live.

Every event is of one logical date, its partition, so that no day is lost when several wait, as they would be in one run
for all of them. What is said comes from an artifact's metadata: no event when that does not ask for one, or has been
announced before.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from airflow.sdk import Asset, BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from nightshift.contracts.deployment import DeploymentOutcome
from pipelines import ir
from pipelines.engines.airflow.operators.context import Rendering, logical_date

Fields = dict[str, Any]
# an hour and a half: events cannot be read while a run that one of them has made is queued (apache/airflow#71360)
RETRIES: dict[str, Any] = {
    "retries": 12,
    "retry_delay": timedelta(minutes=1),
    "retry_exponential_backoff": 2.0,
    "max_retry_delay": timedelta(minutes=10),
}


@dataclass(frozen=True)
class Announcement:
    """What makes an event of an asset.

    Attributes:
        asset: whose event it is.
        step: that makes the artifact.
        output: the artifact.
        reading: returns what the event says besides its date, None for no event; it is given the artifact's metadata,
            which is empty on Kubeflow, whose artifacts Airflow cannot read.
    """

    asset: Asset
    step: str
    output: str
    reading: Callable[[Fields], Fields | None]

    def follow(self, tasks: Mapping[str, BaseOperator]) -> None:
        """Make the task that announces it, behind the step or the whole run."""
        source, is_there = tasks.get(self.step) or tasks["run"], self.step in tasks
        task_id = f"announce_{self.asset.name.rsplit('/')[-1]}"
        operator = AnnounceOperator(
            task_id=task_id, announcement=self, rendering=source.rendering, is_readable=is_there
        )
        operator.set_upstream(source)


class AnnounceOperator(BaseOperator):
    """Emits an asset's event when an artifact of the run asks for it, and is skipped otherwise."""

    def __init__(self, *, announcement: Announcement, rendering: Rendering, is_readable: bool, **options: Any) -> None:
        super().__init__(inlets=[announcement.asset], outlets=[announcement.asset], **RETRIES, **options)
        self.announcement = announcement
        self.is_readable = is_readable
        self.rendering = rendering

    def execute(self, context: Any) -> None:
        """Emit the event.

        Raises:
            AirflowSkipException: when there is nothing to announce.
        """
        asset, date = self.announcement.asset, logical_date(context)
        if context["dag_run"].run_type == "backfill":
            raise AirflowSkipException(
                f"no {asset.name} of {date}: Airflow's backfill starts no other DAG; start it by hand"
            )
        if not self._is_usual(context):
            raise AirflowSkipException(f"no {asset.name}: what follows would run {self.rendering.settings.use_case!r}")
        fields = self.announcement.reading(self._metadata(context))
        if fields is None:
            raise AirflowSkipException(f"no {asset.name} of {date}: the run does not ask for it")
        extra = {"date": date} | fields
        if any(event.extra == extra for event in context["inlet_events"][asset]):
            raise AirflowSkipException(f"{asset.name} has been announced before: {extra}")
        event = context["outlet_events"][asset]
        event.extra = extra
        event.add_partitions(date)
        self.log.info("%s: %s", asset.name, extra)

    def _is_usual(self, context: Any) -> bool:
        """Return whether a run is of the use case that the other DAGs run, and not one that a form named."""
        config = self.rendering.commands(context).arguments.get("config")
        return config is None or config["name"] == self.rendering.settings.use_case

    def _metadata(self, context: Any) -> Fields:
        artifact = ir.ArtifactRef(self.announcement.step, self.announcement.output)
        return self.rendering.commands(context).metadata(artifact) if self.is_readable else {}


def day(use_case: str) -> Announcement:
    """Return what announces that a day's events are in the lake."""
    return Announcement(Asset(f"{use_case}/day"), "ingestion", "events", _day)


def retrain(use_case: str) -> Announcement:
    """Return what announces that a new model is wanted."""
    return Announcement(Asset(f"{use_case}/retrain"), "monitoring", "request", _request)


def model(use_case: str) -> Announcement:
    """Return what announces a promoted model."""
    return Announcement(Asset(f"{use_case}/model"), "deployment", "deployment", _promotion)


def released_model(use_case: str) -> Announcement:
    """Return what announces a model whose release has ended well."""
    return Announcement(Asset(f"{use_case}/model"), "release", "release", _promotion)


def _day(events: Fields) -> Fields:
    return {"sha256": events["sha256"]} if events else {}


def _request(request: Fields) -> Fields | None:
    if not request.get("retrain"):
        return None
    return {name: request[name] for name in ("key", "reason")}


def _promotion(deployment: Fields) -> Fields | None:
    if deployment.get("decision") != DeploymentOutcome.PROMOTED:
        return None
    return {name: deployment[name] for name in ("model", "version", "sha256")}
