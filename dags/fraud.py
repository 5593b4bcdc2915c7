"""Card fraud, every night. For a use case of your own, copy this file and name its config: a name, or a YAML file.

What the DAGs do, and when they start, is on their pages in Airflow and in docs/guides/integrations/airflow.md.
"""

from pipelines.engines.airflow.dags import use_case

use_case("fraud")
