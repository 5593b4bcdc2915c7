"""A step that fails until somebody fixes what it needs, in a run that is late after a second."""

from datetime import timedelta
from pathlib import Path

from pipelines.engines.airflow.interpreter import dag
from pipelines.engines.airflow.operators.context import AirflowSettings

with dag(
    str(Path(__file__).with_name("pipeline.yaml")),
    AirflowSettings.from_environment(),
    timedelta(seconds=1),
    schedule=None,
):
    pass
