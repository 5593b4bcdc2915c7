"""When the DAGs start: by a clock, or on an asset's event."""

from airflow.sdk import Asset, CronTriggerTimetable, PartitionedAssetTimetable


def clock(cron: str) -> CronTriggerTimetable:
    """Return a schedule in UTC, by which a run's logical date is the time it is due.

    Of a bare string Airflow's settings decide both, and another decision would be another day.
    """
    return CronTriggerTimetable(cron, timezone="UTC")


def each(asset: Asset) -> PartitionedAssetTimetable:
    """Return a schedule by which every event of an asset starts a run of its own."""
    return PartitionedAssetTimetable(assets=asset)
