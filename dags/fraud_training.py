"""Trains, judges and deploys the model of a day, and announces a promoted one as `fraud/model`.

Starts every night, or, when the config says `retrain: on_drift`, for each `fraud/retrain` alone.
"""

from datetime import timedelta

from pipelines.engines.airflow import dags
from pipelines.engines.airflow.operators import schedules
from pipelines.engines.airflow.operators.assets import MODEL, RETRAIN

schedule = schedules.retraining("0 2 * * *", RETRAIN.asset)
with dags.dag("training", timedelta(hours=6), schedule=schedule, doc_md=__doc__) as tasks:
    MODEL.follow(tasks)
