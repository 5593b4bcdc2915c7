"""When the DAGs start: by a clock, or on an asset's event."""

from datetime import timedelta

from airflow.sdk import Asset, CronTriggerTimetable, PartitionedAssetTimetable


def clock(cron: str) -> CronTriggerTimetable:
    """Return a schedule in UTC, by which a run's logical date is the time it is due.

    Of a bare string Airflow's settings decide both, and another decision would be another day. A DAG that is turned on
    for the first time waits for its next time: by default it would also run for one that has just passed.
    """
    return CronTriggerTimetable(cron, timezone="UTC", run_immediately=timedelta(0))


def each(asset: Asset) -> PartitionedAssetTimetable:
    """Return a schedule by which every event of an asset starts a run of its own."""
    return PartitionedAssetTimetable(assets=asset)
