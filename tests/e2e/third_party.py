"""Tasks of other packages, through the command line.

Nothing of `tests/third_party` is imported: to have that folder on the path is to have the packages installed.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.e2e import command

THIRD_PARTY = Path(__file__).parents[1] / "third_party"
INSTALLED = os.pathsep.join(filter(None, [str(THIRD_PARTY), os.environ.get("PYTHONPATH", "")]))


@dataclass(frozen=True)
class ThirdPartyWorkspace:
    """A workspace, in whose commands the packages are installed."""

    folder: Path

    def nightshift(self, *words: str) -> str:
        return command.nightshift(self.folder, *words, PYTHONPATH=INSTALLED)

    def run(self, pipeline: str, day: str, config: dict[str, Any], *words: str) -> Path:
        """Run a pipeline; return the folder of the run."""
        file = self.folder / "config.yaml"
        file.write_text(yaml.safe_dump(config))
        self.nightshift("run", pipeline, "--config", str(file), "--date", day, *words)
        return (self.folder / "runs/latest").resolve()


def read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(path.read_text())
    return content
