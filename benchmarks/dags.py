"""What parsing each DAG file costs beside Airflow's own imports, in CPU seconds; run by Airflow's environment."""

import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks import figures

TIMES = 5
DAGS = Path("dags")
OWN = "import time, runpy, airflow.dag_processing.dagbag, airflow.sdk, {}"
PARSE = "start = time.process_time(); runpy.run_path({!r}); print(time.process_time() - start)"
# what Airflow's own operators import, whoever uses them
PROVIDERS = {
    "local": "airflow.providers.standard.operators.trigger_dagrun",
    "aws": "airflow.providers.standard.operators.trigger_dagrun, airflow.providers.cncf.kubernetes.operators.pod",
}


def seconds(path: Path, environment: str) -> float:
    """Parse a DAG file in a process of its own, several times; the least CPU seconds, as the others were disturbed."""
    code = f"{OWN.format(PROVIDERS[environment])}; {PARSE.format(str(path))}"
    command = [sys.executable, "-c", code]
    with tempfile.TemporaryDirectory() as home:
        variables = {"NIGHTSHIFT_ENVIRONMENT": environment, "AIRFLOW_HOME": home, "PATH": ""}
        return min(float(subprocess.check_output(command, env=variables, text=True).split()[-1]) for _ in range(TIMES))


def main() -> None:
    """Publish the CPU seconds of each file: as processes here, as pods on a cluster."""
    rows = [
        {"file": path.name} | {f"{name}, CPU s": seconds(path, name) for name in PROVIDERS}
        for path in sorted(DAGS.glob("*.py"))
    ]
    figures.publish("dags", rows, f"Least of {TIMES}, after Airflow's own imports.")


if __name__ == "__main__":
    main()
