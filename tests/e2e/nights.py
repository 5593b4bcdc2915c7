"""A small world that changes, one night after the other."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from nightshift.runtime.telemetry import GATEWAY
from pipelines import configs
from tests.e2e import command

TRAINED = "2025-06-30"
STABLE = ("2025-07-01", "2025-07-02")
DRIFTED = ("2025-07-03", "2025-07-04", "2025-07-05")
GROUP = "nights"  # group of tests that share one worker, and so the runs that all of them look at


def config() -> dict[str, Any]:
    """The shipped fraud config with a small world that changes, one quick model and a controller that may ask."""
    value: dict[str, Any] = yaml.safe_load((Path(configs.__file__).parent / "fraud.yaml").read_text())
    value["simulator"] = {"customers": 300, "terminals": 600, "drift_from": DRIFTED[0], "volume_factor": 3.0}
    value["task"]["candidates"] = {"logistic_regression": {"kind": "logistic_regression"}}
    # among a few hundred rows a day chance alone moves an input by more than the default
    value["drift"] = {"wasserstein": 0.3}
    value["evaluation"] = {"min_positives": 5, "min_average_precision": 0.05}
    return value | {"controller": {"retrain": "on_drift"}}


@dataclass(frozen=True)
class Nights:
    """The workspace, whose steps push their metrics to a gateway."""

    folder: Path
    gateway: str

    @property
    def flags(self) -> str:
        """The flags that name the config and the workspace."""
        return f"--config {self.folder / 'fraud.yaml'} --workspace {self.folder}"

    def nightshift(self, *words: str, **variables: str) -> str:
        return command.nightshift(self.folder, *words, **{GATEWAY: self.gateway}, **variables)

    def run(self, pipeline: str, day: str, *words: str, **variables: str) -> str:
        flags = ["--date", day, "--config", str(self.folder / "fraud.yaml")]
        return self.nightshift("run", pipeline, *flags, *words, **variables)

    def left(self, pattern: str) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.first(pattern).read_text())
        return content

    def first(self, pattern: str) -> Path:
        """Return a file of the first run that has one."""
        return min((self.folder / "runs").glob(pattern))

    def request(self, day: str) -> dict[str, Any]:
        return self.left(f"fraud-monitoring-{day}-*/monitoring/request")

    def audited(self, day: str) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.folder / "audit" / "fraud" / f"{day}.json").read_text())
        return content
