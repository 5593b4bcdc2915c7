"""Nights as MLflow runs: their values and files, their candidates as nested runs."""

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from nightshift import storage
from nightshift.runtime.lineage import user
from nightshift.tracking import runs
from nightshift.tracking.runs import RunValues

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

PARENT = "mlflow.parentRunId"
USER = "mlflow.user"


@dataclass(frozen=True)
class TrackedNight:
    """What MLflow shows of a night.

    Attributes:
        use_case: name in the config, and of the experiment.
        run: its id.
        is_complete: whether every step has a result.
        finished: when its summary was written.
        values: its own.
        candidates: candidate -> what its nested run shows.
        files: path among the artifacts -> URI.
    """

    use_case: str
    run: str
    is_complete: bool
    finished: datetime
    values: RunValues
    candidates: Mapping[str, RunValues]
    files: Mapping[str, str]


def find_run(client: "MlflowClient", experiment: str, name: str) -> "Run":
    """Return the run of a night, which is created when it is new."""
    return runs.find_or_create(client, experiment, name, name, {USER: user()})


def track(client: "MlflowClient", night: TrackedNight) -> None:
    """Have MLflow show a night; what it shows already is not added again."""
    experiment = runs.find_experiment(client, night.use_case)
    run, end = find_run(client, experiment, night.run), int(night.finished.timestamp() * 1000)
    runs.update(client, run, night.values)
    for name, values in night.candidates.items():
        tags = {USER: user(), PARENT: run.info.run_id}
        nested = runs.find_or_create(client, experiment, f"{night.run}/{name}", name, tags)
        runs.update(client, nested, values)
        client.set_terminated(nested.info.run_id, end_time=end)
    _store_files(client, run.info.run_id, night.files)
    # last: a night that is killed before is shown as running
    client.set_terminated(run.info.run_id, "FINISHED" if night.is_complete else "FAILED", end)


def _store_files(client: "MlflowClient", run_id: str, files: Mapping[str, str]) -> None:
    with tempfile.TemporaryDirectory() as draft:
        for name, uri in files.items():
            storage.write_bytes(str(Path(draft, name)), storage.read_bytes(uri))
        client.log_artifacts(run_id, draft)
