"""Simulated texts without labels, every night, and a language model of them. Paused until somebody turns it on.

Its texts are simulated, whatever NIGHTSHIFT_DATA says; for texts of your own, see packages/llm/docs/language.md.
"""

from pipelines.engines.airflow.dags import use_case

use_case("tales", data="simulator")
