"""Simulated texts of four topics, every night: the smallest use case with texts. Paused until somebody turns it on.

Its texts are simulated, whatever NIGHTSHIFT_DATA says; for texts of your own, see docs/guides/classes.md.
"""

from pipelines.engines.airflow.dags import use_case

use_case("topics", data="simulator")
