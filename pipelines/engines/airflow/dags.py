"""The DAGs of a use case; any number of use cases live in one Airflow, a file of a few lines each (see `dags/`).

Airflow looks for DAGs only in files that hold the word, which the import of this module brings there.
"""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Asset, CronTriggerTimetable, PartitionedAssetTimetable

from pipelines import configs
from pipelines.engines.airflow.interpreter import common, dag, dag_id
from pipelines.engines.airflow.operators import assets, backfill, forms
from pipelines.engines.airflow.operators.context import AirflowSettings

INGESTION = """
Checks the events of the last complete UTC day, writes them to the lake, and announces the day as `{0}/day`.
"""
MONITORING = """
Scores each day that is announced as `{0}/day`, checks it for drift, and requests a new model when one is needed.

A request is announced as `{0}/retrain`. Whether and how often there is one is up to `controller` in the config.
"""
TRAINING = """
Trains, evaluates and deploys the model of a day, and announces a promoted one as `{0}/model`.

Starts by the clock or, with `controller.retrain: on_drift` in the config, for each `{0}/retrain` alone.
"""
RELEASE = """
Takes a version that is being released further, or back, and announces one that is live then as `{0}/model`.

A person approves a version that waits by its form: the version's number as `approve`, and the `reason`.
"""
PAST_DAYS = """
Trains for many past days, one after the other, as runs of `{0}` called `backfill-<day>`, which promote no model.

The same days again repeat only what has changed or failed.
"""


def use_case(config: str, data: str = "") -> None:
    """Make the DAGs of a use case: `<name>_ingestion`, `<name>_monitoring`, `<name>_training`, `<name>_backfill`.

    Where versions are released in steps, or a person has to approve them, there is `<name>_release` too.

    Args:
        config: the name of a shipped config, or the path of a YAML file.
        data: where the raw events lie: `simulator`, a folder, s3:// or gs:// (default: NIGHTSHIFT_DATA).

    Raises:
        UserError: when the config or an environment variable is not valid.
    """
    loaded, settings = configs.load(config), AirflowSettings.from_environment()
    name, clocks = loaded["name"], configs.clocks(loaded)
    settings = replace(settings, config=config, use_case=name, data=data or settings.data)
    day, request, model = assets.day(name), assets.retrain(name), assets.model(name)
    training = cron_schedule(clocks["training"]) if clocks["training"] else asset_schedule(request.asset)
    _follow(
        "ingestion",
        day,
        settings,
        2,
        schedule=cron_schedule(loaded["schedule"]["ingestion"]),
        doc_md=INGESTION.format(name),
    )
    _follow("monitoring", request, settings, 2, schedule=asset_schedule(day.asset), doc_md=MONITORING.format(name))
    _follow("training", model, settings, 6, schedule=training, doc_md=TRAINING.format(name))
    if clocks["release"] or loaded["release"]["approval"] == "required":
        # where nothing is released in steps, only a person who approves starts it
        released, clock = assets.released_model(name), clocks["release"]
        schedule = cron_schedule(clock) if clock else None
        _follow("release", released, settings, 2, schedule=schedule, doc_md=RELEASE.format(name))
    _backfill(settings)


def _follow(
    pipeline: str, announcement: assets.Announcement, settings: AirflowSettings, hours: int, **options: Any
) -> None:
    """Make the DAG of a pipeline that announces something, and is late after so many hours."""
    with dag(pipeline, settings, timedelta(hours=hours), **options) as tasks:
        announcement.follow(tasks)


def _backfill(settings: AirflowSettings) -> None:
    name, runs = (dag_id(settings, purpose) for purpose in ("backfill", "training"))
    options = {"params": forms.span(settings), "doc_md": PAST_DAYS.format(runs), **common(settings)}
    with DAG(name, schedule=None, **options):
        backfill.each_day(name, runs)


def cron_schedule(cron: str) -> CronTriggerTimetable:
    """Return a schedule in UTC, by which a run's logical date is the time it is due.

    Of a bare string Airflow's settings decide both, and another decision would be another day. A DAG that is turned on
    for the first time waits for its next time: by default it would also run for one that has just passed.
    """
    return CronTriggerTimetable(cron, timezone="UTC", run_immediately=timedelta(0))


def asset_schedule(asset: Asset) -> PartitionedAssetTimetable:
    """Return a schedule that starts a run for every event of an asset."""
    return PartitionedAssetTimetable(assets=asset)
