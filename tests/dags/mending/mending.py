"""A step that fails until somebody mends what it needs, in a run that is late after a second."""

from datetime import timedelta
from pathlib import Path

from pipelines.engines.airflow import dags

with dags.dag(str(Path(__file__).with_name("pipeline.yaml")), timedelta(seconds=1), schedule=None):
    pass
