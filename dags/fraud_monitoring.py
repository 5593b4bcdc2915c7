"""Scores a day that `fraud_ingestion` has announced, checks it for drift, and asks for a new model when needed.

A request is announced as `fraud/retrain`. Whether there is one, and how often, the config's `controller` says.
"""

from datetime import timedelta

from airflow.sdk import PartitionedAssetTimetable

from pipelines.engines.airflow import dags
from pipelines.engines.airflow.operators.assets import DAY, RETRAIN

schedule = PartitionedAssetTimetable(assets=DAY.asset)
with dags.dag("monitoring", timedelta(hours=2), schedule=schedule, doc_md=__doc__) as tasks:
    RETRAIN.follow(tasks)
