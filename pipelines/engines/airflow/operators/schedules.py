"""When the DAGs start: by a clock, or on a request."""

from airflow.sdk import Asset, CronTriggerTimetable, PartitionedAssetTimetable

from pipelines import configs
from pipelines.engines.airflow.operators.context import Place


def clock(cron: str) -> CronTriggerTimetable:
    """Return a schedule in UTC, by which a run's logical date is the time it is due.

    Of a bare string Airflow's settings decide both, and another decision would be another day.
    """
    return CronTriggerTimetable(cron, timezone="UTC")


def retraining(cron: str, requests: Asset) -> CronTriggerTimetable | PartitionedAssetTimetable:
    """Return when a model is trained: by the clock, or for each request, as the config's policy says."""
    policy = configs.load(Place.named().config)["controller"]["retrain"]
    return clock(cron) if policy == "daily" else PartitionedAssetTimetable(assets=requests)
