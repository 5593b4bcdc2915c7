"""Two nights of several use cases, all at once, in one Airflow such as `make airflow` starts.

`.venv-airflow/bin/python -m benchmarks.nights FOLDER CONFIG,DATA,DATE ...`: CONFIG is a name or a file, DATA what the
form calls so, DATE the first night's day. In the first night each use case trains, since monitoring needs a champion;
in the second, of the next day, each ingests, monitors, and trains again. FOLDER keeps Airflow's home, the runs and
their reports.
"""

import os
import sys
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

from benchmarks import figures
from pipelines import configs
from pipelines.engines.airflow import standalone
from tests.dags.person import PYTHON, ROOT, Airflow, nightshift

DAGS = ("monitoring", "ingestion", "training")  # whoever follows an asset first
FILE = """from pipelines.engines.airflow.dags import use_case

use_case({config!r}, data={data!r})
"""


@dataclass(frozen=True)
class UseCase:
    """One of those side by side.

    Attributes:
        name: of the use case, as DAGs spell it.
        config: a name, or the path of a file.
        data: where its raw events are.
        day: the first night's.
    """

    name: str
    config: str
    data: str
    day: date

    @classmethod
    def parse(cls, word: str) -> "UseCase":
        """Read CONFIG,DATA,DATE."""
        config, data, day = word.split(",")
        config = config if config in configs.names() else str(Path(config).resolve())
        data = data if data == "simulator" else str(Path(data).resolve())
        return cls(str(configs.load(config)["name"]).replace("-", "_"), config, data, date.fromisoformat(day))

    def write(self, dags: Path) -> None:
        """Write the file that makes its DAGs."""
        (dags / f"{self.name}.py").write_text(FILE.format(config=self.config, data=self.data))


def first(airflow: Airflow, cases: list[UseCase]) -> list[tuple[str, str]]:
    """Train all models at once, and return each DAG with its run."""
    for case in cases:
        airflow.trigger(f"{case.name}_training", "first", date=str(case.day))
    return [(f"{case.name}_training", "first") for case in cases]


def second(airflow: Airflow, cases: list[UseCase]) -> list[tuple[str, str]]:
    """Ingest and train the next day at once; monitoring follows by itself."""
    nights = {case.name: str(case.day + timedelta(days=1)) for case in cases}
    for name, day in nights.items():
        for dag in ("ingestion", "training"):
            airflow.trigger(f"{name}_{dag}", "second", date=day)
    watched = [(f"{name}_monitoring", airflow.follows(f"{name}_monitoring", day)) for name, day in nights.items()]
    return [(f"{name}_{dag}", "second") for name in nights for dag in ("ingestion", "training")] + watched


def await_end(airflow: Airflow, runs: list[tuple[str, str]]) -> list[figures.Row]:
    """Wait for all runs of a night; return a row for each."""
    states = [airflow.end(*run) for run in runs]
    details = [airflow.call("GET", f"/dags/{dag}/dagRuns/{run}") for dag, run in runs]
    return [
        {
            "DAG": dag,
            "night": night,
            "state": state,
            "seconds": (_time(run, "end_date") - _time(run, "start_date")).seconds,
        }
        for (dag, night), state, run in zip(runs, states, details, strict=True)
    ]


def _time(run: dict[str, Any], field: str) -> datetime:
    return datetime.fromisoformat(run[field])


def main(folder: str, *use_cases: str) -> int:
    """Start Airflow, have both nights done, and print the address of each report."""
    workspace, cases = Path(folder).resolve(), [UseCase.parse(word) for word in use_cases]
    (workspace / "dags").mkdir(parents=True, exist_ok=True)
    for case in cases:
        case.write(workspace / "dags")
    environment = {"NIGHTSHIFT_WORKSPACE": str(workspace), "NIGHTSHIFT_PYTHON": str(PYTHON), "PYTHONPATH": str(ROOT)}
    running = standalone.start(workspace / "home", workspace / "dags", environment)
    try:
        airflow = Airflow(running.client(), workspace)
        for dag in DAGS:
            for case in cases:
                airflow.unpause(f"{case.name}_{dag}")
        rows = [row for night in (first, second) for row in await_end(airflow, night(airflow, cases))]
    finally:
        running.stop()
        nightshift("stop", "--workspace", str(workspace)).communicate()
    for report in sorted(workspace.glob("runs/*/report.html"), key=os.path.getmtime):
        print(report)
    figures.publish("nights", rows)
    return any(row["state"] != "success" for row in rows)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
