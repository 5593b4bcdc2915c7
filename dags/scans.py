"""Simulated scans with reports, every night, and a model of both. Paused until somebody turns it on.

Its scans are simulated, whatever NIGHTSHIFT_DATA says; for yours, see packages/image-text/docs/image-text.md.
"""

from pipelines.engines.airflow.dags import use_case

use_case("scans", data="simulator")
