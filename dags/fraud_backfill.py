"""Trains for many past days, one after the other, as runs of `fraud_training` that put no model in use.

A day's run is called `backfill-<day>`. The same days again run again what has changed or failed.
"""

from airflow.sdk import DAG

from pipelines.engines.airflow import dags
from pipelines.engines.airflow.operators import backfill, forms
from pipelines.engines.airflow.operators.context import Place

with DAG("fraud_backfill", schedule=None, doc_md=__doc__, params=forms.span(Place.named()), **dags.COMMON):
    backfill.each_day("fraud_training")
