"""Has the events of the last complete UTC day checked and in the lake, and announces the day as `fraud/day`."""

from datetime import timedelta

from pipelines.engines.airflow import dags
from pipelines.engines.airflow.operators import schedules
from pipelines.engines.airflow.operators.assets import DAY

with dags.dag("ingestion", timedelta(hours=2), schedule=schedules.clock("0 1 * * *"), doc_md=__doc__) as tasks:
    DAY.follow(tasks)
