"""Handwritten digits, every night: the smallest use case with images. Paused until somebody turns it on.

Its images are scikit-learn's, whatever NIGHTSHIFT_DATA says; for images of your own, see docs/guides/classes.md.
"""

from pipelines.engines.airflow.dags import use_case

use_case("digits", data="simulator")
