"""Run pipelines on Airflow: a task per step."""
