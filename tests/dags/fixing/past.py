"""A backfill of a DAG that does nothing."""

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG

from pipelines.engines.airflow.interpreter import common
from pipelines.engines.airflow.operators import backfill, forms
from pipelines.engines.airflow.operators.context import AirflowSettings

SETTINGS = AirflowSettings.from_environment()

with DAG("past_training", schedule=None, max_active_runs=1):
    EmptyOperator(task_id="training")
with DAG("past_backfill", schedule=None, params=forms.span(SETTINGS), **common(SETTINGS)):
    backfill.each_day("past_backfill", "past_training")
