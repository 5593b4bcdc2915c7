"""Has the events of the last complete UTC day checked and in the lake, and announces the day as `fraud/day`."""

from datetime import timedelta

from pipelines import airflow
from pipelines.operators import schedules
from pipelines.operators.assets import DAY

with airflow.dag("fraud-ingestion", timedelta(hours=2), schedule=schedules.clock("0 1 * * *"), doc_md=__doc__) as tasks:
    DAY.follow(tasks)
