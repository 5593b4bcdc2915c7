"""Tags that say when a version was live: on its run, and on MLflow's version of the registered model."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from nightshift.contracts.release_record import LivePeriod, Release
from nightshift.tracking import runs

if TYPE_CHECKING:
    from mlflow import MlflowClient

FROM, TO, PERIODS = "live_from", "live_to", "live_periods"


def describe(record: Release) -> dict[str, dict[str, str]]:
    """Return the tags of each version that is or was live, number -> tag -> value; times are ISO 8601, in UTC."""
    periods = sorted(record.live_periods, key=lambda period: (period.version, period.since))
    grouped = groupby(periods, key=lambda period: period.version)
    return {str(version): _describe_version(list(group)) for version, group in grouped}


def _describe_version(periods: Sequence[LivePeriod]) -> dict[str, str]:
    """Return the tags of a version: of the last time that it was live, then all times as ISO 8601 intervals."""
    times = [(_format(period.since), _format(period.until) if period.until else "") for period in periods]
    since, until = times[-1]
    return {FROM: since, TO: until, PERIODS: " ".join(f"{start}/{end or '..'}" for start, end in times)}


def _format(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds")


def tag_runs(client: "MlflowClient", use_case: str, record: Release) -> None:
    """Tag the runs of the versions that are or were live, where the tags differ."""
    tags = describe(record)
    experiment = runs.find_experiment(client, use_case)
    for run in client.search_runs([experiment], f"tags.{runs.VERSION} != ''", max_results=5000):
        for name, value in _select_changed(run.data.tags, tags.get(run.data.tags[runs.VERSION], {})):
            runs.retry_conflict(partial(client.set_tag, run.info.run_id, name, value))


def tag_versions(client: "MlflowClient", name: str, record: Release) -> None:
    """Tag the versions of a registered model that are or were live, where the tags differ."""
    tags = describe(record)
    for version in client.search_model_versions(f"name='{name}'"):
        for key, value in _select_changed(version.tags, tags.get(str(version.version), {})):
            write = partial(client.set_model_version_tag, name, str(version.version), key, value)
            runs.retry_conflict(write)


def _select_changed(known: Mapping[str, str], wanted: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(name, value) for name, value in wanted.items() if known.get(name) != value]
